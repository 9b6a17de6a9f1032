// Ways to answer the graph tuner's question. All are deterministic, and ties go to the alternative that stands first.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "base/error.h"
#include "tune/graph/problem.h"

namespace kilter::tune {

/// For each node its own cheapest alternative, whatever the edges say: what history-best does.
ChoiceAnswer solve_greedy(const ChoiceProblem& problem);

/// Every combination. Rejected when there are more than `limit`.
std::variant<ChoiceAnswer, Rejected> solve_brute_force(const ChoiceProblem& problem, double limit = 1e7);

/// Dynamic programming from the leaves up; exact. Rejected when the edges, those between the same nodes taken as one,
/// close a circle.
std::variant<ChoiceAnswer, Rejected> solve_forest(const ChoiceProblem& problem);

struct PbqpOptions {
  /// Most entries of all tables that eliminate nodes of more than two neighbours, times the alternatives of those
  /// nodes. 0: no such elimination.
  int64_t table_entries = 1 << 23;
  int sweeps = 120;            ///< of the lower bound, at most
  int64_t branches = 100'000;  ///< of the branch and bound, at most; 0: none
  /// Work of one branch is a node's edges; so many entries of their matrices, at most.
  int64_t branch_work = 40'000'000;
};

/// Any graph. Nodes with no, one or two neighbours are folded into these (R0, RI, RII), exact; what is left is
/// eliminated node by node through tables, exact where they stay small (bucket elimination, Dechter 1999). Else: the
/// best of the node-wise choice, of RN (fixing the node of the most neighbours by its neighbourhood alone) and of
/// roundings of the bound, each improved node by node; a lower bound by moving costs between nodes and edges
/// (Kolmogorov 2006, 2015); alternatives that the bound rules out are dropped, which may make all of it exact; then
/// branch and bound with a limit. Never worse than solve_greedy(). Limits count work, not time: the same problem has
/// the same answer everywhere.
ChoiceAnswer solve_pbqp(const ChoiceProblem& problem, const PbqpOptions& options = {});

/// Changes single nodes as long as that lowers the cost; nodes in order, at most `rounds` times round. Answers its
/// cost.
double improve_node_by_node(const ChoiceProblem& problem, std::vector<size_t>& choice, int rounds = 50);

/// The edges between each pair of nodes as one, from the lower node to the higher, in order.
std::vector<ChoiceEdge> merged_edges(const ChoiceProblem& problem);

}  // namespace kilter::tune
