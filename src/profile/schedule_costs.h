// What schedules of one problem cost beside its default: each compiled, measured with cold weights in interleaved
// batches with the default, and kept as a ratio of pairs.
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
  size_t batch = 12;  ///< schedules in turns with the default; their weights push each other out of the caches
  int rounds = 4;     ///< of a batch; each runs every schedule twice
  double slice_ms = 0.1;
};

struct ScheduleCost {
  double cost = 0;  ///< time over that of the default; infinity where compiling refused it
  double compile_ms = 0;
  double measure_ms = 0;  ///< that its runs took, with what goes before them
};

/// Costs in the order of the schedules. `progress` is told how many are done. Throws bad_input for a problem that does
/// not read back.
std::vector<ScheduleCost> schedule_costs(const std::string& problem, std::span<const Schedule> schedules,
                                         const CostOptions& options,
                                         const std::function<void(size_t done)>& progress = {});

}  // namespace kilter::profile
