#include "schedule/model/paying_threads.h"

#include <algorithm>

#include "schedule/model/loop_count.h"

namespace kilter {
namespace {

constexpr double kAsManyAsThereAre = 1024;  ///< the largest number of threads in a pool

}  // namespace

int32_t paying_threads(const LoopFunc& func, const CpuLimits& limits) {
  if (func.parallel_extent() <= 1) return 0;
  const LoopCount count = count_loops(func, limits);
  const double threads = std::max(count.cycles / static_cast<double>(limits.thread_cycles),
                                  count.bytes / static_cast<double>(limits.thread_bytes));
  return threads >= kAsManyAsThereAre ? 0 : std::max(1, static_cast<int32_t>(threads));
}

}  // namespace kilter
