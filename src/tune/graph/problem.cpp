#include "tune/graph/problem.h"

#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/text.h"

namespace kilter::tune {
namespace {

bool is_cost(double ms) { return !std::isnan(ms) && ms > -std::numeric_limits<double>::infinity(); }

}  // namespace

double ChoiceProblem::cost_ms(const std::vector<size_t>& choice) const {
  require(choice.size() == nodes.size(), "{} choices for {} nodes", choice.size(), nodes.size());
  double sum = 0;
  for (size_t n = 0; n < nodes.size(); ++n) sum += nodes[n][choice[n]];
  for (const ChoiceEdge& edge : edges) sum += edge_ms(edge, choice[edge.from], choice[edge.to]);
  return sum;
}

void check(const ChoiceProblem& problem) {
  for (size_t n = 0; n < problem.nodes.size(); ++n) {
    require(!problem.nodes[n].empty(), "graph tuner: node {} has no alternatives", n);
    for (const double ms : problem.nodes[n]) {
      require(is_cost(ms), "graph tuner: node {} has a cost of {} ms; expected a number or infinity", n,
              format_float(ms));
    }
  }
  for (size_t e = 0; e < problem.edges.size(); ++e) {
    const ChoiceEdge& edge = problem.edges[e];
    require(edge.from < problem.nodes.size() && edge.to < problem.nodes.size(),
            "graph tuner: edge {} joins {} and {}; there are {} nodes", e, edge.from, edge.to, problem.nodes.size());
    require(edge.from != edge.to, "graph tuner: edge {} joins node {} with itself; add its costs to the node's", e,
            edge.from);
    const size_t expected = problem.nodes[edge.from].size() * problem.nodes[edge.to].size();
    require(edge.ms.size() == expected, "graph tuner: edge {} has {} costs; expected {} x {}", e, edge.ms.size(),
            problem.nodes[edge.from].size(), problem.nodes[edge.to].size());
    for (const double ms : edge.ms) {
      require(is_cost(ms), "graph tuner: edge {} has a cost of {} ms; expected a number or infinity", e,
              format_float(ms));
    }
  }
}

double ChoiceAnswer::gap() const {
  if (exact) return 0;
  const double scale = std::abs(lower_bound_ms);
  return std::isfinite(ms) && scale > 0 && std::isfinite(scale) ? (ms - lower_bound_ms) / scale
                                                                : std::numeric_limits<double>::infinity();
}

}  // namespace kilter::tune
