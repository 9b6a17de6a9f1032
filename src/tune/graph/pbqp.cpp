// The solver for any graph: exact reductions, elimination, bounds, branch and bound.

#include <algorithm>
#include <cmath>
#include <limits>

#include "tune/graph/branch.h"
#include "tune/graph/eliminate.h"
#include "tune/graph/solvers.h"
#include "tune/graph/work_graph.h"

namespace kilter::tune {
namespace {

constexpr double kImpossible = std::numeric_limits<double>::infinity();
/// Rounds of bounding, dropping and elimination, among which `sweeps` are divided.
constexpr int kRounds = 6;

/// Sum of the magnitudes of everything that may be added up; rounding errors are relative to this sum.
double magnitude(const ChoiceProblem& problem) {
  double sum = 0;
  const auto add_largest = [&](const std::vector<double>& ms) {
    double largest = 0;
    for (const double v : ms) largest = std::max(largest, std::isinf(v) ? 0 : std::abs(v));
    sum += largest;
  };
  for (const auto& node : problem.nodes) add_largest(node);
  for (const ChoiceEdge& edge : problem.edges) add_largest(edge.ms);
  return sum;
}

class Pbqp {
 public:
  Pbqp(const ChoiceProblem& problem, const PbqpOptions& options)
      : problem_(problem), options_(options), slack_(1e-9 * magnitude(problem)), graph_(problem) {}

  ChoiceAnswer run() {
    best_ = solve_greedy(problem_).choice;
    best_ms_ = problem_.cost_ms(best_);
    if (!graph_.reduce() || !graph_.drop_impossible()) return proven("nothing is possible");
    if (graph_.core().empty()) return unfolded(std::vector<size_t>(graph_.size()), "reductions R0, RI, RII");
    if (eliminated()) return proven("reductions and elimination");
    offer(best_);
    offer(fix_by_neighbourhood());
    bound_ = graph_.lower_bound();
    for (int round = 0; round < kRounds; ++round) {
      if (!sweep(options_.sweeps / kRounds) || best_ms_ - bound_ <= slack_)
        return proven("reductions and a matching bound");
      if (!drop_beyond() || !graph_.reduce() || !graph_.drop_impossible())
        return proven("reductions and exclusion by bound");
      if (graph_.core().empty())
        return unfolded(std::vector<size_t>(graph_.size()), "reductions and exclusion by bound");
      if (eliminated()) return proven("reductions, exclusion by bound, elimination");
    }
    return branched();
  }

 private:
  /// The best choice found is within the slack of the optimum; if none was found, nothing is possible.
  ChoiceAnswer proven(const char* how) const { return {best_, best_ms_, best_ms_, true, how}; }

  void offer(std::vector<size_t> choice) {
    double ms = problem_.cost_ms(choice);
    if (ms < kImpossible) ms = improve_node_by_node(problem_, choice);
    if (ms >= best_ms_) return;
    best_ms_ = ms;
    best_ = std::move(choice);
  }

  /// Adopts `choice`, the best of the core, unless a choice found before alternatives were dropped is better.
  void take(std::vector<size_t> choice) {
    graph_.unfold(choice);
    const double ms = problem_.cost_ms(choice);
    if (ms >= best_ms_) return;
    best_ms_ = ms;
    best_ = std::move(choice);
  }

  ChoiceAnswer unfolded(std::vector<size_t> choice, const char* how) {
    take(std::move(choice));
    return proven(how);
  }

  bool eliminated() {
    auto choice = eliminate(graph_, options_.table_entries);
    if (!choice) return false;
    take(std::move(*choice));
    return true;
  }

  /// RN: the node with the most neighbours gets the alternative that is best for itself and its neighbours, ignoring
  /// all other nodes; then the reductions continue.
  std::vector<size_t> fix_by_neighbourhood() const {
    WorkGraph graph = graph_;
    std::vector<size_t> choice(graph.size());
    while (true) {
      const std::vector<size_t> core = graph.core();
      if (core.empty()) break;
      const size_t n = *std::max_element(core.begin(), core.end(), [&](size_t a, size_t b) {
        return graph.edges_of(a).size() < graph.edges_of(b).size();
      });
      size_t best = 0;
      double least = kImpossible;
      for (size_t x = 0; x < graph.node(n).size(); ++x) {
        const double ms = with_neighbours(graph, n, x);
        if (ms >= least) continue;
        least = ms;
        best = x;
      }
      graph.fix(n, best);
      if (least == kImpossible || !graph.reduce()) break;
    }
    graph.unfold(choice);
    return choice;
  }

  static double with_neighbours(const WorkGraph& graph, size_t n, size_t x) {
    double sum = graph.node(n)[x];
    for (const size_t e : graph.edges_of(n)) {
      const std::vector<double>& other = graph.node(graph.other_end(e, n));
      double low = kImpossible;
      for (size_t y = 0; y < other.size(); ++y) low = std::min(low, other[y] + graph.edge_ms(e, n, x, y));
      sum += low;
    }
    return sum;
  }

  /// Raises the bound: forward and backward over the core, each node gathers the minimum costs of its edges and passes
  /// them on to the nodes ahead. Returns false once the bound meets the best known cost.
  bool sweep(int sweeps) {
    std::vector<size_t> order = graph_.core();
    for (int s = 0; s < sweeps; ++s) {
      const double before = bound_;
      for (int direction = 0; direction < 2; ++direction) {
        pass(order);
        std::reverse(order.begin(), order.end());
      }
      for (const size_t n : order) graph_.collect(n);
      bound_ = std::max(bound_, graph_.lower_bound());
      if (s % 5 == 4 || s + 1 == sweeps) offer(rounded(order));
      if (best_ms_ - bound_ <= slack_) return false;
      if (s > 5 && bound_ - before <= slack_) break;
    }
    return true;
  }

  void pass(const std::vector<size_t>& order) {
    std::vector<size_t> place(graph_.size());
    for (size_t i = 0; i < order.size(); ++i) place[order[i]] = i;
    for (const size_t n : order) {
      graph_.collect(n);
      std::vector<size_t> ahead;
      for (const size_t e : graph_.edges_of(n)) {
        if (place[graph_.other_end(e, n)] > place[n]) ahead.push_back(e);
      }
      const size_t behind = graph_.edges_of(n).size() - ahead.size();
      if (!ahead.empty()) graph_.hand_out(n, ahead, 1.0 / static_cast<double>(std::max(ahead.size(), behind)));
    }
  }

  /// Makes a choice from the costs that sweep() has moved. Node by node, each gets the alternative that is best
  /// together with those already chosen.
  std::vector<size_t> rounded(const std::vector<size_t>& order) const {
    std::vector<size_t> choice(graph_.size());
    std::vector<bool> decided(graph_.size());
    for (const size_t n : order) {
      std::vector<double> sums = graph_.node(n);
      for (const size_t e : graph_.edges_of(n)) {
        const size_t other = graph_.other_end(e, n);
        if (!decided[other]) continue;
        for (size_t x = 0; x < sums.size(); ++x) sums[x] += graph_.edge_ms(e, n, x, choice[other]);
      }
      choice[n] = static_cast<size_t>(std::min_element(sums.begin(), sums.end()) - sums.begin());
      decided[n] = true;
    }
    graph_.unfold(choice);
    return choice;
  }

  /// Drops alternatives that cannot be part of anything better than the best known choice. Returns false if a node has
  /// none left.
  bool drop_beyond() {
    // Computed once: dropping alternatives can only raise the bound.
    const double bound = graph_.lower_bound();
    for (const size_t n : graph_.core()) {
      for (size_t x = 0; x < graph_.node(n).size(); ++x) {
        if (graph_.node(n)[x] < kImpossible && bound + graph_.rise(n, x) >= best_ms_ - slack_ / 2) graph_.drop(n, x);
      }
      if (graph_.alternatives(n) == 0) return false;
    }
    return graph_.drop_impossible();
  }

  ChoiceAnswer branched() {
    if (options_.branches > 0) {
      const BranchResult found =
          branch_and_bound(graph_, best_ms_ - slack_ / 2, options_.branches, options_.branch_work);
      if (!found.choice.empty()) take(found.choice);
      if (found.complete) return proven("reductions, bounds, branches");
      offer(best_);
    }
    // The bound was computed by additions and subtractions, whose rounding errors are within the slack.
    return {best_, best_ms_, std::min(bound_ - slack_ / 2, best_ms_), false, "reductions, heuristic, bound"};
  }

  const ChoiceProblem& problem_;
  PbqpOptions options_;
  double slack_;
  WorkGraph graph_;
  std::vector<size_t> best_;
  double best_ms_ = kImpossible;
  double bound_ = -kImpossible;
};

}  // namespace

ChoiceAnswer solve_pbqp(const ChoiceProblem& problem, const PbqpOptions& options) {
  check(problem);
  return Pbqp(problem, options).run();
}

}  // namespace kilter::tune
