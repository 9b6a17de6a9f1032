#include "tune/graph/eliminate.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <set>

namespace kilter::tune {
namespace {

constexpr double kImpossible = std::numeric_limits<double>::infinity();

/// Costs over the alternatives of a few nodes; the last node varies fastest.
struct Factor {
  std::vector<size_t> nodes;
  std::vector<double> ms;
};

/// The result of eliminating a node: its best alternative for each combination of its neighbours' alternatives.
struct Eliminated {
  size_t node = 0;
  std::vector<size_t> neighbours;
  std::vector<uint32_t> best;
};

class Eliminator {
 public:
  Eliminator(const WorkGraph& graph, int64_t limit) : graph_(graph), limit_(limit), possible_(graph.size()) {
    for (const size_t n : graph.core()) {
      for (size_t x = 0; x < graph.node(n).size(); ++x) {
        if (graph.node(n)[x] < kImpossible) possible_[n].push_back(x);
      }
    }
  }

  std::optional<std::vector<size_t>> run() {
    const std::optional<std::vector<size_t>> order = plan();
    if (!order) return std::nullopt;
    make_factors();
    std::vector<Eliminated> done;
    for (const size_t n : *order) done.push_back(remove(n));
    std::vector<size_t> choice(graph_.size());  // at first as indices in possible_
    for (auto step = done.rbegin(); step != done.rend(); ++step) {
      size_t at = 0;
      for (const size_t other : step->neighbours) at = at * possible_[other].size() + choice[other];
      choice[step->node] = step->best[at];
    }
    for (const size_t n : *order) choice[n] = possible_[n][choice[n]];
    return choice;
  }

 private:
  double entries(const std::set<size_t>& neighbours) const {
    double product = 1;
    for (const size_t n : neighbours) product *= static_cast<double>(possible_[n].size());
    return product;
  }

  /// Returns the order of elimination; none if its tables would exceed the limit.
  std::optional<std::vector<size_t>> plan() const {
    std::vector<std::set<size_t>> neighbours(graph_.size());
    std::set<size_t> open;
    for (const size_t n : graph_.core()) {
      open.insert(n);
      for (const size_t e : graph_.edges_of(n)) neighbours[n].insert(graph_.other_end(e, n));
    }
    std::vector<double> size(graph_.size());
    for (const size_t n : open) size[n] = entries(neighbours[n]);
    std::vector<size_t> order;
    double work = 0;
    while (!open.empty()) {
      const size_t smallest =
          *std::min_element(open.begin(), open.end(), [&](size_t a, size_t b) { return size[a] < size[b]; });
      work += size[smallest] * static_cast<double>(possible_[smallest].size());
      if (work > static_cast<double>(limit_)) return std::nullopt;
      for (const size_t a : neighbours[smallest]) {
        neighbours[a].erase(smallest);
        for (const size_t b : neighbours[smallest]) {
          if (a != b) neighbours[a].insert(b);
        }
        size[a] = entries(neighbours[a]);
      }
      open.erase(smallest);
      order.push_back(smallest);
    }
    return order;
  }

  void make_factors() {
    for (const size_t n : graph_.core()) {
      Factor factor{{n}, {}};
      for (const size_t x : possible_[n]) factor.ms.push_back(graph_.node(n)[x]);
      factors_.push_back(std::move(factor));
      for (const size_t e : graph_.edges_of(n)) {
        const size_t other = graph_.other_end(e, n);
        if (other < n) continue;
        Factor pair{{n, other}, {}};
        for (const size_t x : possible_[n]) {
          for (const size_t y : possible_[other]) pair.ms.push_back(graph_.edge_ms(e, n, x, y));
        }
        factors_.push_back(std::move(pair));
      }
    }
  }

  /// Joins all factors of n into one over its neighbours.
  Eliminated remove(size_t n) {
    const auto first_of_mine = std::stable_partition(factors_.begin(), factors_.end(), [&](const Factor& factor) {
      return std::find(factor.nodes.begin(), factor.nodes.end(), n) == factor.nodes.end();
    });
    const std::vector<Factor> mine(std::make_move_iterator(first_of_mine), std::make_move_iterator(factors_.end()));
    factors_.erase(first_of_mine, factors_.end());
    std::set<size_t> around;
    for (const Factor& factor : mine) around.insert(factor.nodes.begin(), factor.nodes.end());
    around.erase(n);
    Eliminated out{n, {around.begin(), around.end()}, {}};
    Factor joint{out.neighbours, {}};
    fill(n, mine, joint, out.best);
    if (!joint.nodes.empty()) factors_.push_back(std::move(joint));
    return out;
  }

  /// Returns the stride of each of `nodes` in the factor.
  std::vector<size_t> strides(const Factor& factor, const std::vector<size_t>& nodes) const {
    std::vector<size_t> out(nodes.size());
    size_t step = 1;
    for (size_t i = factor.nodes.size(); i-- > 0;) {
      for (size_t k = 0; k < nodes.size(); ++k) {
        if (nodes[k] == factor.nodes[i]) out[k] = step;
      }
      step *= possible_[factor.nodes[i]].size();
    }
    return out;
  }

  void fill(size_t n, const std::vector<Factor>& mine, Factor& joint, std::vector<uint32_t>& best) const {
    std::vector<size_t> nodes = joint.nodes;
    nodes.push_back(n);
    std::vector<std::vector<size_t>> step;
    for (const Factor& factor : mine) step.push_back(strides(factor, nodes));
    std::vector<size_t> place(mine.size());
    std::vector<size_t> digit(joint.nodes.size());
    for (bool more = true; more;) {
      double low = kImpossible;
      uint32_t which = 0;
      for (size_t x = 0; x < possible_[n].size(); ++x) {
        double sum = 0;
        for (size_t f = 0; f < mine.size(); ++f) sum += mine[f].ms[place[f] + x * step[f].back()];
        if (sum >= low) continue;
        low = sum;
        which = static_cast<uint32_t>(x);
      }
      joint.ms.push_back(low);
      best.push_back(which);
      more = false;
      for (size_t k = digit.size(); k-- > 0 && !more;) {
        more = ++digit[k] < possible_[joint.nodes[k]].size();
        for (size_t f = 0; f < mine.size(); ++f) {
          place[f] += step[f][k];
          if (!more) place[f] -= step[f][k] * digit[k];
        }
        if (!more) digit[k] = 0;
      }
    }
  }

  const WorkGraph& graph_;
  int64_t limit_;
  std::vector<std::vector<size_t>> possible_;
  std::vector<Factor> factors_;
};

}  // namespace

std::optional<std::vector<size_t>> eliminate(const WorkGraph& graph, int64_t limit) {
  if (limit <= 0) return std::nullopt;
  return Eliminator(graph, limit).run();
}

}  // namespace kilter::tune
