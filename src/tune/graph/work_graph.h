// A problem while it is being solved: nodes fold into their neighbours, alternatives drop out, costs move between nodes
// and edges without changing the sum of any choice.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "tune/graph/problem.h"

namespace kilter::tune {

class WorkGraph {
 public:
  struct Edge {
    size_t a = 0;
    size_t b = 0;
    std::vector<double> ms;  ///< [alternative of a][alternative of b]
  };

  explicit WorkGraph(const ChoiceProblem& problem);

  size_t size() const { return nodes_.size(); }
  /// Infinity: an alternative that dropped out.
  const std::vector<double>& node(size_t n) const { return nodes_[n]; }
  const Edge& edge(size_t e) const { return edges_[e]; }
  /// Numbers of the edges that it still has.
  const std::vector<size_t>& edges_of(size_t n) const { return edges_of_[n]; }
  size_t other_end(size_t e, size_t n) const { return edges_[e].a == n ? edges_[e].b : edges_[e].a; }
  /// Of alternative x of n and y of the other end.
  double edge_ms(size_t e, size_t n, size_t x, size_t y) const;
  /// Nodes that are not folded away, in order.
  std::vector<size_t> core() const;
  /// Of everything that is folded away.
  double folded_ms() const { return folded_ms_; }
  size_t alternatives(size_t n) const;  ///< those that did not drop out

  /// Folds nodes of no, one and two neighbours until there are none. False when nothing is possible.
  bool reduce();
  /// Fixes a node to one of its alternatives and folds it away.
  void fix(size_t n, size_t x);
  /// The alternative drops out.
  void drop(size_t n, size_t x);
  /// Drops alternatives that have no possible partner in some neighbour. False when a node has none left.
  bool drop_impossible();

  /// Moves to node n what each of its alternatives costs at least on each of its edges.
  void collect(size_t n);
  /// Moves a share of the node's costs to each of these edges.
  void hand_out(size_t n, const std::vector<size_t>& edges, double share);
  /// No choice costs less: everything folded, and the least of each node and each edge.
  double lower_bound() const;
  /// The node's alternatives, if taken, make the bound so much higher: of collect()ed nodes.
  double rise(size_t n, size_t x) const;

  /// Completes a choice of the core to one of all nodes: those folded away take what is best beside it, last one first.
  void unfold(std::vector<size_t>& choice) const;

 private:
  struct Folded {
    size_t node = 0;
    std::vector<size_t> edges;
  };
  double* at(size_t e, size_t n, size_t x, size_t& step);
  void fold(size_t n);
  void detach(size_t e, size_t n);
  void fold_into_one(size_t n);
  void fold_into_two(size_t n);

  std::vector<std::vector<double>> nodes_;
  std::vector<Edge> edges_;
  std::vector<std::vector<size_t>> edges_of_;
  std::vector<bool> gone_;
  std::vector<Folded> folded_;
  double folded_ms_ = 0;
};

}  // namespace kilter::tune
