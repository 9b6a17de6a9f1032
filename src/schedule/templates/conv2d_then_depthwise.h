// A convolution and the depthwise convolution that alone reads its result, weighed: in two tasks, or in one.
#pragma once

#include "graph/graph.h"
#include "schedule/schedule.h"

namespace kilter {

/// Cycles of one core, by the model.
struct PairCycles {
  double apart = 0;     ///< in two tasks, what is in between going through memory
  double together = 0;  ///< in one
  bool direct = true;   ///< false: another template than direct convolution may be faster for the first one apart
};
/// Of the node `conv` and the node `depthwise`, which reads what becomes of its result. Rejects pairs that the template
/// does not take.
Answer<PairCycles> weigh_pair(const Graph& graph, const Node& conv, const Node& depthwise, const TargetLimits& limits);

}  // namespace kilter
