// The solvers without reductions: greedy, brute force, and trees.

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "base/text.h"
#include "tune/graph/solvers.h"

namespace kilter::tune {
namespace {

constexpr double kImpossible = std::numeric_limits<double>::infinity();

ChoiceAnswer exact_answer(const ChoiceProblem& problem, std::vector<size_t> choice, const char* how) {
  ChoiceAnswer answer{std::move(choice), 0, 0, true, how};
  answer.ms = problem.cost_ms(answer.choice);
  answer.lower_bound_ms = answer.ms;
  return answer;
}

size_t cheapest(const std::vector<double>& ms) {
  return static_cast<size_t>(std::min_element(ms.begin(), ms.end()) - ms.begin());
}

/// One edge of a node, with the neighbour at its other end.
struct Neighbour {
  size_t node = 0;
  const ChoiceEdge* edge = nullptr;
};
using Neighbours = std::vector<std::vector<Neighbour>>;

Neighbours neighbours_of(const ChoiceProblem& problem, const std::vector<ChoiceEdge>& edges) {
  Neighbours out(problem.nodes.size());
  for (const ChoiceEdge& edge : edges) {
    out[edge.from].push_back({edge.to, &edge});
    out[edge.to].push_back({edge.from, &edge});
  }
  return out;
}

double ms_between(const ChoiceProblem& problem, size_t node, size_t choice, const Neighbour& other,
                  size_t other_choice) {
  return other.edge->from == node ? problem.edge_ms(*other.edge, choice, other_choice)
                                  : problem.edge_ms(*other.edge, other_choice, choice);
}

/// Tries all combinations, node by node; the cost so far includes the edges to earlier nodes.
class BruteForce {
 public:
  BruteForce(const ChoiceProblem& problem, const Neighbours& neighbours)
      : problem_(problem), neighbours_(neighbours), choice_(problem.nodes.size()), best_(problem.nodes.size()) {}
  std::vector<size_t> run() {
    descend(0, 0);
    return best_;
  }

 private:
  void descend(size_t node, double ms) {
    if (node == choice_.size()) {
      if (ms >= best_ms_) return;
      best_ms_ = ms;
      best_ = choice_;
      return;
    }
    for (size_t x = 0; x < problem_.nodes[node].size(); ++x) {
      double sum = ms + problem_.nodes[node][x];
      for (const Neighbour& other : neighbours_[node]) {
        if (other.node < node) sum += ms_between(problem_, node, x, other, choice_[other.node]);
      }
      if (sum == kImpossible) continue;
      choice_[node] = x;
      descend(node + 1, sum);
    }
  }

  const ChoiceProblem& problem_;
  const Neighbours& neighbours_;
  std::vector<size_t> choice_, best_;
  double best_ms_ = kImpossible;
};

/// The trees of a forest, parents before children.
struct Forest {
  std::vector<size_t> order;
  std::vector<const Neighbour*> parent;  ///< by node; nullptr: a root
  bool is_forest = true;
};

Forest walk(const Neighbours& neighbours) {
  Forest forest;
  forest.parent.resize(neighbours.size());
  std::vector<bool> seen(neighbours.size());
  for (size_t root = 0; root < neighbours.size(); ++root) {
    if (seen[root]) continue;
    seen[root] = true;
    forest.order.push_back(root);
    for (size_t at = forest.order.size() - 1; at < forest.order.size(); ++at) {
      const size_t node = forest.order[at];
      for (const Neighbour& other : neighbours[node]) {
        if (forest.parent[node] != nullptr && forest.parent[node]->node == other.node) continue;
        if (seen[other.node]) {
          forest.is_forest = false;
          continue;
        }
        seen[other.node] = true;
        forest.order.push_back(other.node);
        for (const Neighbour& back : neighbours[other.node]) {
          if (back.node == node) forest.parent[other.node] = &back;
        }
      }
    }
  }
  return forest;
}

}  // namespace

std::vector<ChoiceEdge> merged_edges(const ChoiceProblem& problem) {
  std::map<std::pair<size_t, size_t>, ChoiceEdge> merged;
  for (const ChoiceEdge& edge : problem.edges) {
    const bool turned = edge.from > edge.to;
    const auto ends = turned ? std::pair(edge.to, edge.from) : std::pair(edge.from, edge.to);
    ChoiceEdge& sum = merged[ends];
    sum.from = ends.first;
    sum.to = ends.second;
    sum.ms.resize(edge.ms.size());
    const size_t columns = problem.nodes[sum.to].size();
    for (size_t i = 0; i < sum.ms.size(); ++i) {
      sum.ms[i] += turned ? problem.edge_ms(edge, i % columns, i / columns) : edge.ms[i];
    }
  }
  std::vector<ChoiceEdge> edges;
  for (auto& [ends, edge] : merged) edges.push_back(std::move(edge));
  return edges;
}

ChoiceAnswer solve_greedy(const ChoiceProblem& problem) {
  check(problem);
  ChoiceAnswer answer;
  for (const std::vector<double>& node : problem.nodes) {
    answer.choice.push_back(cheapest(node));
    answer.lower_bound_ms += node[answer.choice.back()];
  }
  // The bound adds up the minimum of each node and of each edge.
  for (const ChoiceEdge& edge : problem.edges)
    answer.lower_bound_ms += *std::min_element(edge.ms.begin(), edge.ms.end());
  answer.ms = problem.cost_ms(answer.choice);
  answer.exact = answer.lower_bound_ms >= answer.ms;
  answer.lower_bound_ms = std::min(answer.lower_bound_ms, answer.ms);
  answer.how = "each node's cheapest";
  return answer;
}

Result<ChoiceAnswer> solve_brute_force(const ChoiceProblem& problem, double limit) {
  check(problem);
  double combinations = 1;
  for (const std::vector<double>& node : problem.nodes) combinations *= static_cast<double>(node.size());
  if (combinations > limit) {
    return Rejected{"combinations for brute force", fmt::format("{:.4g}", limit), fmt::format("{:.4g}", combinations)};
  }
  const std::vector<ChoiceEdge> edges = merged_edges(problem);
  const Neighbours neighbours = neighbours_of(problem, edges);
  return exact_answer(problem, BruteForce(problem, neighbours).run(), "all combinations");
}

Result<ChoiceAnswer> solve_forest(const ChoiceProblem& problem) {
  check(problem);
  const std::vector<ChoiceEdge> edges = merged_edges(problem);
  const Neighbours neighbours = neighbours_of(problem, edges);
  const Forest forest = walk(neighbours);
  if (!forest.is_forest) {
    return Rejected{"graph for dynamic programming", "a forest (no cycle of edges)",
                    fmt::format("{} nodes with {} edges and a cycle", problem.nodes.size(), edges.size())};
  }
  std::vector<std::vector<double>> ms = problem.nodes;          // costs including the subtrees
  std::vector<std::vector<size_t>> best(problem.nodes.size());  // by node, for each alternative of its parent
  for (auto at = forest.order.rbegin(); at != forest.order.rend(); ++at) {
    const Neighbour* parent = forest.parent[*at];
    if (parent == nullptr) continue;
    for (size_t y = 0; y < ms[parent->node].size(); ++y) {
      std::vector<double> sums = ms[*at];
      for (size_t x = 0; x < sums.size(); ++x) sums[x] += ms_between(problem, *at, x, *parent, y);
      best[*at].push_back(cheapest(sums));
      ms[parent->node][y] += sums[best[*at].back()];
    }
  }
  std::vector<size_t> choice(problem.nodes.size());
  for (const size_t node : forest.order) {
    const Neighbour* parent = forest.parent[node];
    choice[node] = parent == nullptr ? cheapest(ms[node]) : best[node][choice[parent->node]];
  }
  return exact_answer(problem, std::move(choice), "dynamic programming");
}

double improve_node_by_node(const ChoiceProblem& problem, std::vector<size_t>& choice, int rounds) {
  Neighbours neighbours = neighbours_of(problem, problem.edges);
  bool changed = true;
  for (int round = 0; round < rounds && changed; ++round) {
    changed = false;
    for (size_t node = 0; node < choice.size(); ++node) {
      std::vector<double> sums = problem.nodes[node];
      for (const Neighbour& other : neighbours[node]) {
        for (size_t x = 0; x < sums.size(); ++x) sums[x] += ms_between(problem, node, x, other, choice[other.node]);
      }
      const size_t best = cheapest(sums);
      const double now = sums[choice[node]];
      // Prevents cycles that are due only to rounding.
      if (now == kImpossible ? sums[best] < now : sums[best] < now - 1e-12 * std::abs(now)) {
        choice[node] = best;
        changed = true;
      }
    }
  }
  return problem.cost_ms(choice);
}

}  // namespace kilter::tune
