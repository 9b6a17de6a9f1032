// A problem while it is being solved: nodes are folded into their neighbours, alternatives are dropped, and costs move
// between nodes and edges without changing the total of any choice.
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
  /// Costs of a node's alternatives; infinity: an alternative that was dropped.
  const std::vector<double>& node(size_t n) const { return nodes_[n]; }
  const Edge& edge(size_t e) const { return edges_[e]; }
  /// Indices of the edges that the node still has.
  const std::vector<size_t>& edges_of(size_t n) const { return edges_of_[n]; }
  size_t other_end(size_t e, size_t n) const { return edges_[e].a == n ? edges_[e].b : edges_[e].a; }
  /// Cost of alternative x of n with alternative y of the other end.
  double edge_ms(size_t e, size_t n, size_t x, size_t y) const;
  /// Nodes that are not folded away, in order.
  std::vector<size_t> core() const;
  /// Cost of everything folded away.
  double folded_ms() const { return folded_ms_; }
  size_t alternatives(size_t n) const;  ///< number of those not dropped

  /// Folds nodes with at most two neighbours until there are none. Returns false if nothing is possible.
  bool reduce();
  /// Fixes a node to one of its alternatives and folds it away.
  void fix(size_t n, size_t x);
  /// Makes an alternative impossible.
  void drop(size_t n, size_t x);
  /// Drops alternatives that have no possible partner in some neighbour. Returns false if a node has none left.
  bool drop_impossible();

  /// For each of n's alternatives, moves the minimum cost on each of n's edges to the node.
  void collect(size_t n);
  /// Moves a share of the node's costs to each of these edges.
  void hand_out(size_t n, const std::vector<size_t>& edges, double share);
  /// A lower bound on the cost of all choices: the folded cost plus the minimum of each node and each edge.
  double lower_bound() const;
  /// The amount by which the lower bound rises if n gets alternative x. Call collect(n) first.
  double rise(size_t n, size_t x) const;

  /// Extends a choice for the core to all nodes: each folded node gets its best alternative, the last one folded first.
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
