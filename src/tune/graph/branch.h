// Branch and bound on the core of a problem.
#pragma once

#include <cstdint>
#include <vector>

#include "tune/graph/work_graph.h"

namespace kilter::tune {

struct BranchResult {
  /// The search stayed within the limits: `choice`, if any, is the best one below the given bound.
  bool complete = false;
  std::vector<size_t> choice;  ///< for the core's nodes, others at 0; empty: nothing costs less than `below`
  double ms = 0;               ///< cost of the core with everything folded, if there is a choice
};

/// Finds the best choice of the core that costs less than `below`, depth first, trying nodes with many decided
/// neighbours first and cheapest alternatives first. The bounds are good once a lower bound's sweeps have moved the
/// graph's costs.
BranchResult branch_and_bound(const WorkGraph& graph, double below, int64_t branches, int64_t work);

}  // namespace kilter::tune
