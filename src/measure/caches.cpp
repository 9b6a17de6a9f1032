#include "measure/caches.h"

#include <algorithm>
#include <fstream>
#include <string>

#include "base/text.h"
#include "measure/conditions.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace kilter {
namespace {

/// Returns "48K" or "32M" as bytes; 0 for anything else.
int64_t parse_size(const std::string& text) {
  if (text.empty()) return 0;
  const int64_t unit = text.back() == 'K' ? 1 << 10 : text.back() == 'M' ? 1 << 20 : text.back() == 'G' ? 1 << 30 : 1;
  return try_parse_int(unit == 1 ? text : text.substr(0, text.size() - 1)).value_or(0) * unit;
}

void set(CacheSizes& sizes, int level, int64_t bytes) {
  if (level == 1) sizes.l1_bytes = bytes;
  if (level == 2) sizes.l2_bytes = bytes;
  if (level == 3) sizes.l3_bytes = bytes;
}

CacheSizes from_sysfs(int cpu) {
  CacheSizes sizes;
  for (int index = 0; index < 8; ++index) {
    const std::string folder =
        "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/cache/index" + std::to_string(index) + "/";
    std::ifstream level_file(folder + "level");
    std::ifstream type_file(folder + "type");
    std::ifstream size_file(folder + "size");
    int level = 0;
    std::string type;
    std::string size;
    if (!(level_file >> level) || !(type_file >> type) || !(size_file >> size)) continue;
    if (type == "Data" || type == "Unified") set(sizes, level, parse_size(size));
  }
  return sizes;
}

CacheSizes from_cpuid() {
  CacheSizes sizes;
#if defined(__x86_64__)
  for (const unsigned leaf : {4U, 0x8000001dU}) {
    for (unsigned index = 0; index < 16; ++index) {
      unsigned a = 0, b = 0, c = 0, d = 0;
      if (__get_cpuid_count(leaf, index, &a, &b, &c, &d) == 0 || (a & 31U) == 0) break;
      const bool data = (a & 31U) == 1 || (a & 31U) == 3;
      const int64_t ways = (b >> 22) + 1;
      const int64_t partitions = ((b >> 12) & 1023U) + 1;
      const int64_t line = (b & 4095U) + 1;
      if (data) set(sizes, static_cast<int>((a >> 5) & 7U), ways * partitions * line * (static_cast<int64_t>(c) + 1));
    }
  }
#endif
  return sizes;
}

}  // namespace

CacheSizes cache_sizes() {
  CacheSizes sizes = from_sysfs(affinity_cpus().front());
  const CacheSizes other = from_cpuid();
  if (sizes.l1_bytes == 0) sizes.l1_bytes = other.l1_bytes;
  if (sizes.l2_bytes == 0) sizes.l2_bytes = other.l2_bytes;
  if (sizes.l3_bytes == 0) sizes.l3_bytes = other.l3_bytes;
  return sizes;
}

int64_t last_level_cache_bytes() {
  const CacheSizes sizes = cache_sizes();
  return std::max({sizes.l1_bytes, sizes.l2_bytes, sizes.l3_bytes, int64_t{1} << 20});
}

}  // namespace kilter
