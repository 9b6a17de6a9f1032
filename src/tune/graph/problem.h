// The graph tuner's problem: choose one alternative for each layer so that layers and the layout changes between them
// take the least time in total. Known as a partitioned Boolean quadratic problem (PBQP).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace kilter::tune {

/// The costs of pairs of alternatives at the two ends of an edge.
struct ChoiceEdge {
  size_t from = 0;
  size_t to = 0;
  std::vector<double> ms;  ///< [alternative of from][alternative of to], row-major; infinity: the pair is impossible
};

struct ChoiceProblem {
  /// By node, then by alternative: milliseconds; infinity: impossible. Any finite number is legal, including negative
  /// ones.
  std::vector<std::vector<double>> nodes;
  /// Several edges between the same nodes, in either direction, add up.
  std::vector<ChoiceEdge> edges;

  double edge_ms(const ChoiceEdge& edge, size_t from_choice, size_t to_choice) const {
    return edge.ms[from_choice * nodes[edge.to].size() + to_choice];
  }
  /// Cost of one alternative for each node; infinity if the combination is impossible.
  double cost_ms(const std::vector<size_t>& choice) const;
};

/// Throws internal, naming the node or edge, for a node without alternatives, an edge to a missing node or from a node
/// to itself, matrices of the wrong size, and numbers that are NaN or -infinity.
void check(const ChoiceProblem& problem);

/// A solution and how good it is known to be.
struct ChoiceAnswer {
  std::vector<size_t> choice;  ///< by node; one alternative each, even if nothing is possible
  double ms = 0;               ///< cost of `choice`; infinity: nothing is possible, or (if not exact) nothing was found
  double lower_bound_ms = 0;   ///< no choice costs less, except for rounding; equals `ms` if exact
  bool exact = false;          ///< no choice is better by more than 1e-9 of the sum of the costs' magnitudes
  std::string how;             ///< how it was found, in words for reports
  /// Share by which the solution may exceed the optimum; 0 if exact, infinity if the bound gives no information.
  double gap() const;
};

}  // namespace kilter::tune
