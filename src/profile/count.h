// Hardware counters by layer. They are read in separate runs, so that reading them does not disturb the times.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "exec/executor.h"
#include "measure/counters.h"

namespace kilter::profile {

struct StepCounters {
  std::vector<CounterValues> steps;  ///< by step, for one run, all threads together; empty if the machine has none
  std::string why_not;               ///< why there are none, one line for the user; empty if there are counters
};

/// Counts over `passes` runs. Reads the counters of every thread of this process before and after each step.
StepCounters count_steps(Instance& instance, const Plan& plan, std::span<const std::byte* const> inputs,
                         std::span<std::byte* const> outputs, int passes);

/// Returns the mean of one run from the sum of several.
CounterValues per_run(CounterValues sum, int runs);

}  // namespace kilter::profile
