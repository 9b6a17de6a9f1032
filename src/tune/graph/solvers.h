// Solvers for the graph tuner's problem. All are deterministic; ties go to the first alternative.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "tune/graph/problem.h"

namespace kilter::tune {

/// Chooses each node's cheapest alternative and ignores the edges, as history-best does.
ChoiceAnswer solve_greedy(const ChoiceProblem& problem);

/// Tries every combination. Rejected if there are more than `limit`.
Result<ChoiceAnswer> solve_brute_force(const ChoiceProblem& problem, double limit = 1e7);

/// Dynamic programming from the leaves up; exact. Rejected if the edges form a cycle, counting parallel edges as one.
Result<ChoiceAnswer> solve_forest(const ChoiceProblem& problem);

struct PbqpOptions {
  /// Limit for eliminating nodes with more than two neighbours: table entries times alternatives of the eliminated
  /// node, summed over the tables. 0: no such elimination.
  int64_t table_entries = 1 << 23;
  int sweeps = 120;            ///< maximum number of sweeps of the lower bound
  int64_t branches = 100'000;  ///< maximum number of branches of the branch and bound; 0: none
  /// Maximum work of the branch and bound, in matrix entries of the edges of the nodes visited.
  int64_t branch_work = 40'000'000;
};

/// Solves any graph. Nodes with at most two neighbours are folded into these (R0, RI, RII), which is exact. If the
/// tables stay small enough, the rest is eliminated node by node, which is also exact (bucket elimination, Dechter
/// 1999). Otherwise the solution is the best of three, each improved node by node: every node's cheapest alternative,
/// RN (which fixes the node with the most neighbours, looking only at these) and roundings of the bound. A lower bound
/// comes from moving costs between nodes and edges (Kolmogorov 2006, 2015). Alternatives that the bound rules out are
/// dropped, which may make the solution exact. A limited branch and bound comes last. The result is never worse than
/// solve_greedy(). Limits count work, not time, so the same problem has the same solution everywhere.
ChoiceAnswer solve_pbqp(const ChoiceProblem& problem, const PbqpOptions& options = {});

/// Changes single nodes as long as that lowers the cost, going through the nodes in order at most `rounds` times.
/// Returns the cost.
double improve_node_by_node(const ChoiceProblem& problem, std::vector<size_t>& choice, int rounds = 50);

/// Merges the edges between each pair of nodes into one, from the lower node to the higher, in order.
std::vector<ChoiceEdge> merged_edges(const ChoiceProblem& problem);

}  // namespace kilter::tune
