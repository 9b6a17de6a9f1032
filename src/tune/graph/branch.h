// Branch and bound over the core of a problem.
#pragma once

#include <cstdint>
#include <vector>

#include "tune/graph/work_graph.h"

namespace kilter::tune {

struct BranchResult {
  bool complete = false;       ///< the limits were not met: `choice`, if any, is the best one below the bound given
  std::vector<size_t> choice;  ///< of the core's nodes, others at 0; empty: none costs less than `below`
  double ms = 0;               ///< of the core with everything folded, when there is a choice
};

/// The best choice of the core that costs less than `below`, depth first, nodes of many decided neighbours first,
/// cheapest alternatives first. Bounds are good after the graph's costs were moved by a lower bound's sweeps.
BranchResult branch_and_bound(const WorkGraph& graph, double below, int64_t branches, int64_t work);

}  // namespace kilter::tune
