// Sizes of this machine's caches.
#pragma once

#include <cstdint>

namespace kilter {

struct CacheSizes {
  int64_t l1_bytes = 0;  ///< data cache of one core; 0 if the machine does not report it
  int64_t l2_bytes = 0;  ///< of one core
  int64_t l3_bytes = 0;  ///< shared by several cores
};

/// Returns the caches of the first CPU that this process may run on, from sysfs, or otherwise from CPUID leaf 4 or
/// 0x8000001D.
CacheSizes cache_sizes();
/// Returns the size of the largest cache, at least 1 MB.
int64_t last_level_cache_bytes();

}  // namespace kilter
