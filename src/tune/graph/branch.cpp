#include "tune/graph/branch.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace kilter::tune {
namespace {

double least(const std::vector<double>& ms) { return *std::min_element(ms.begin(), ms.end()); }

class Brancher {
 public:
  Brancher(const WorkGraph& graph, double below, int64_t branches, int64_t work)
      : graph_(graph), below_(below), branches_(branches), work_(work), decided_(graph.size()), choice_(graph.size()) {
    for (size_t n = 0; n < graph.size(); ++n) ms_.push_back(graph.node(n));
    make_order();
  }

  BranchResult run() {
    double edges = graph_.folded_ms();
    for (const size_t n : order_) {
      for (const size_t e : graph_.edges_of(n)) {
        if (graph_.edge(e).a == n) edges += least(graph_.edge(e).ms);
      }
    }
    double nodes = 0;
    for (const size_t n : order_) nodes += least(ms_[n]);
    descend(0, edges + nodes);
    result_.complete = branches_ >= 0 && work_ >= 0;
    result_.ms = below_;
    return result_;
  }

 private:
  /// Orders the nodes: next comes the one with the most neighbours among the nodes ordered so far; of equal ones, the
  /// one with the most neighbours overall.
  void make_order() {
    const std::vector<size_t> core = graph_.core();
    std::vector<size_t> before(graph_.size());
    std::vector<bool> taken(graph_.size());
    while (order_.size() < core.size()) {
      size_t best = graph_.size();
      for (const size_t n : core) {
        if (taken[n]) continue;
        const auto rank = [&](size_t m) { return std::pair(before[m], graph_.edges_of(m).size()); };
        if (best == graph_.size() || rank(n) > rank(best)) best = n;
      }
      taken[best] = true;
      order_.push_back(best);
      for (const size_t e : graph_.edges_of(best)) ++before[graph_.other_end(e, best)];
    }
  }

  /// Searches a subtree. `bound` is a lower bound for it: the cost of the decided nodes plus the minimum of each open
  /// node and edge.
  void descend(size_t depth, double bound) {
    if (bound >= below_) return;
    if (depth == order_.size()) {
      below_ = bound;
      result_.choice = choice_;
      return;
    }
    const size_t n = order_[depth];
    std::vector<size_t> cheapest_first(ms_[n].size());
    std::iota(cheapest_first.begin(), cheapest_first.end(), size_t{0});
    std::stable_sort(cheapest_first.begin(), cheapest_first.end(),
                     [&](size_t a, size_t b) { return ms_[n][a] < ms_[n][b]; });
    const double low = ms_[n][cheapest_first[0]];
    for (const size_t x : cheapest_first) {
      if (bound - low + ms_[n][x] >= below_ || branches_ < 0 || work_ < 0) return;
      --branches_;
      choice_[n] = x;
      decided_[n] = true;
      take(n, x, depth, bound - low + ms_[n][x]);
      decided_[n] = false;
    }
  }

  /// Searches the subtree in which n has alternative x. During this search, the costs of n's edges to open neighbours
  /// are added to these neighbours.
  void take(size_t n, size_t x, size_t depth, double bound) {
    std::vector<std::pair<size_t, std::vector<double>>> saved;
    for (const size_t e : graph_.edges_of(n)) {
      const size_t other = graph_.other_end(e, n);
      if (decided_[other]) continue;
      saved.emplace_back(other, ms_[other]);
      const double before = least(ms_[other]) + least(graph_.edge(e).ms);
      for (size_t y = 0; y < ms_[other].size(); ++y) ms_[other][y] += graph_.edge_ms(e, n, x, y);
      work_ -= static_cast<int64_t>(ms_[n].size() * ms_[other].size());
      bound += least(ms_[other]) - before;
      if (bound >= below_) break;
    }
    if (bound < below_) descend(depth + 1, bound);
    for (auto at = saved.rbegin(); at != saved.rend(); ++at) ms_[at->first] = std::move(at->second);
  }

  const WorkGraph& graph_;
  double below_;
  int64_t branches_, work_;
  std::vector<bool> decided_;
  std::vector<size_t> choice_, order_;
  std::vector<std::vector<double>> ms_;
  BranchResult result_;
};

}  // namespace

BranchResult branch_and_bound(const WorkGraph& graph, double below, int64_t branches, int64_t work) {
  return Brancher(graph, below, branches, work).run();
}

}  // namespace kilter::tune
