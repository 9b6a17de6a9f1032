// Sizes of this machine's caches.
#pragma once

#include <cstdint>

namespace kilter {

struct CacheSizes {
  int64_t l1_bytes = 0;  ///< data, of one core; 0 where the machine does not tell
  int64_t l2_bytes = 0;  ///< of one core
  int64_t l3_bytes = 0;  ///< of all cores that share it
};

/// Of the first CPU that this process may run on: sysfs, else CPUID leaf 4 or 0x8000001D.
CacheSizes cache_sizes();
/// The largest of them, at least 1 MB.
int64_t last_level_cache_bytes();

}  // namespace kilter
