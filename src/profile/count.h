// Hardware counters by layer, in runs of their own, so that reading them disturbs no time.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "exec/executor.h"
#include "measure/counters.h"

namespace kilter::profile {

struct StepCounters {
  std::vector<CounterValues> steps;  ///< by step, of one run, all threads together; empty where the machine has none
  std::string why_not;               ///< one line for the user; empty where it has
};

/// Counts `passes` runs. The counters of every thread of this process are read before and after each step.
StepCounters count_steps(Instance& instance, const Plan& plan, std::span<const std::byte* const> inputs,
                         std::span<std::byte* const> outputs, int passes);

/// The mean of one run from the sum of several.
CounterValues per_run(CounterValues sum, int runs);

}  // namespace kilter::profile
