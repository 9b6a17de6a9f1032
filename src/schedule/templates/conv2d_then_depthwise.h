// Compares two ways to run a convolution and the depthwise convolution that is the only reader of its result: as two
// tasks, and as one.
#pragma once

#include "graph/graph.h"
#include "schedule/schedule.h"

namespace kilter {

/// Cycles of one core according to the model.
struct PairCycles {
  double apart = 0;     ///< in two tasks, with the values between them going through memory
  double together = 0;  ///< in one task
  bool direct = true;   ///< false: on its own, the first convolution may run faster with a different template
};
/// Compares the two ways for `conv` and `depthwise`, which reads conv's result after any element-wise nodes. Rejects
/// pairs that the template does not support.
Result<PairCycles> weigh_pair(const Graph& graph, const Node& conv, const Node& depthwise, const CpuLimits& limits);

}  // namespace kilter
