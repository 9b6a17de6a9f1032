// Costs of a problem's schedules relative to its default. Each schedule is compiled and measured with cold weights, in
// a batch that is interleaved with the default; its cost is a ratio of paired times.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "schedule/schedule.h"
#include "target/target.h"

namespace kilter::profile {

struct CostOptions {
  Target target;
  int threads = 1;
  size_t batch = 12;  ///< schedules that take turns with the default; their weights evict each other from the caches
  int rounds = 4;     ///< of a batch; each runs every schedule twice
  double slice_ms = 0.1;
};

struct ScheduleCost {
  double cost = 0;  ///< time over that of the default; infinity if it could not be compiled
  double compile_ms = 0;
  double measure_ms = 0;  ///< time of its runs, including their preparation
};

/// Returns the costs in the order of the schedules. `progress` receives the number of schedules done. Throws bad_input
/// for a problem that cannot be read back.
std::vector<ScheduleCost> schedule_costs(const std::string& problem, std::span<const Schedule> schedules,
                                         const CostOptions& options,
                                         const std::function<void(size_t done)>& progress = {});

}  // namespace kilter::profile
