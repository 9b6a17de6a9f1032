#include "schedule/model/register_tile.h"

namespace kilter {

double reread_rate(int64_t bytes, const CpuLimits& limits) {
  return bytes <= limits.l2_bytes / 2   ? std::max(limits.l2_rate, limits.l3_rate)
         : bytes <= limits.l3_bytes / 2 ? limits.l3_rate
                                        : limits.memory_rate;
}

}  // namespace kilter
