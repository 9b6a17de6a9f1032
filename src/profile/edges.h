// Determines which steps of a plan read the results of which other steps.
#pragma once

#include <string>
#include <vector>

#include "exec/plan.h"

namespace kilter::profile {

/// What a step reads from its buffers, apart from constants.
struct StepReads {
  std::vector<size_t> steps;        ///< the steps that wrote it, ascending; a halo's step if the buffer has one
  std::vector<std::string> inputs;  ///< names of the network's inputs, in the order of the step's buffers
};

/// Returns what each step reads. A plan does not say which buffers a kernel writes: they follow from the order in which
/// the steps touch their buffers, and the parts of a joined buffer (Concat) from the shapes of the operands.
std::vector<StepReads> reads_of(const Plan& plan);

}  // namespace kilter::profile
