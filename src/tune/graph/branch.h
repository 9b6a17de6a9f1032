// Branch and bound on the core of a problem.
#pragma once

#include <cstdint>
#include <vector>

#include "tune/graph/work_graph.h"

namespace kilter::tune {

struct BranchResult {
  /// Whether the search stayed within its limits. If so, `choice` is the best one below the given bound.
  bool complete = false;
  std::vector<size_t> choice;  ///< by node; 0 for nodes outside the core; empty: nothing costs less than `below`
  double ms = 0;               ///< cost of the choice, including everything folded, if there is a choice
};

/// Finds the best choice of the core that costs less than `below`, depth first, trying nodes with many decided
/// neighbours first and cheap alternatives first. Its bounds are tight only if sweeps that raise the lower bound have
/// already moved costs in the graph (see solve_pbqp()).
BranchResult branch_and_bound(const WorkGraph& graph, double below, int64_t branches, int64_t work);

}  // namespace kilter::tune
