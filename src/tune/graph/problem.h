// The graph tuner's question: for each layer one of its alternatives, so that layers and the changes of layout between
// them take the least time together. Known as a partitioned Boolean quadratic problem (PBQP).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace kilter::tune {

/// What an alternative of one end costs together with one of the other end.
struct ChoiceEdge {
  size_t from = 0;
  size_t to = 0;
  std::vector<double> ms;  ///< [alternative of from][alternative of to], row-major; infinity: not possible together
};

struct ChoiceProblem {
  /// By node, by alternative: milliseconds; infinity: not possible. Any finite number is legal, negative ones too.
  std::vector<std::vector<double>> nodes;
  /// Several between the same nodes add up, whichever way round they stand.
  std::vector<ChoiceEdge> edges;

  double edge_ms(const ChoiceEdge& edge, size_t from_choice, size_t to_choice) const {
    return edge.ms[from_choice * nodes[edge.to].size() + to_choice];
  }
  /// Of one alternative for each node; infinity when it is not possible.
  double cost_ms(const std::vector<size_t>& choice) const;
};

/// Throws internal, naming the node or edge, for a node without alternatives, an edge that ends at no node or at its
/// own beginning, matrices of another size, and numbers that are NaN or -infinity.
void check(const ChoiceProblem& problem);

/// An answer, and what is known of it.
struct ChoiceAnswer {
  std::vector<size_t> choice;  ///< by node; when nothing is possible, still one of its alternatives
  double ms = 0;               ///< cost of `choice`; infinity: nothing is possible, or (not exact) nothing was found
  double lower_bound_ms = 0;   ///< no choice costs less, but for rounding; `ms` where exact
  bool exact = false;          ///< no choice is better by more than 1e-9 of the sum of the magnitudes of the costs
  std::string how;             ///< how it was found, in words for reports
  /// Share by which the answer may lie above the optimum; 0 where exact, infinity where the bound says nothing.
  double gap() const;
};

}  // namespace kilter::tune
