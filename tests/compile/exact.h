// The answer of a network in f64, and how far rounding to f32 may carry a compiled one from it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace kilter {

/// The graph with f64 wherever it has f32: inputs, constants, attributes, casts.
Graph in_f64(Graph graph);
Tensor to_f64(const Tensor& tensor);

/// What nodes of a compiled network round by.
enum class Rounding : uint8_t {
  sums,      ///< sums of an operator's products, in any order
  winograd,  ///< convolutions that it takes by Winograd's method, the rest as `sums`
};

/// A network's answer in f64 and the tolerance of each element, from the conditioning of the network at these inputs.
///
/// Every node may be off by u = 2^-24 times what its kernel adds up: (16 + sqrt(K)) u of the sum of the magnitudes of
/// the K terms of a contraction or reduction; 16 u of the result, or of the larger sum that its definition takes it
/// from, and what a change of its operands by 4 u makes of it for other nodes; (64 + sqrt(C)) u of the largest sum of
/// magnitudes for Winograd's convolutions (doc/accuracy.md). The sums of a recurrent layer's gates round as a
/// contraction does, in every step alike: as a change of its
/// bias; its gates round at 1 and multiply the largest state.
///
/// The network runs in f64 with each element of each node changed by a random part of that; the largest change of an
/// output over these runs, doubled, is its tolerance. Outputs that decisions hang on (Where, integers) then have a
/// tolerance as large as what the decision makes, as have those near a pole.
class Exact {
 public:
  Exact(const Graph& graph, const std::vector<Tensor>& inputs);

  const std::vector<Tensor>& outputs() const { return want_; }
  /// "" when output `index` of a compiled run is within the tolerance, else the worst element: got, expected, allowed.
  std::string judge(size_t index, const Tensor& got, Rounding rounding);

 private:
  struct Spread {
    int runs = 0;
    std::vector<std::vector<double>> most;  ///< by output: largest change of each element
  };
  /// The rounding of each element of a node's outputs, from its operands.
  void note_scale(const Node& node, NodeId id, const std::vector<Tensor>& operands, const std::vector<Tensor>& results);
  /// Of a node that adds up.
  std::vector<double> sum_scale(const Node& node, NodeId id, const std::vector<Tensor>& operands, const Tensor& result);
  void sample(Spread& spread, Rounding rounding, int runs);
  std::string worst(size_t index, const Tensor& got, const Spread& spread) const;

  Graph graph_;
  std::vector<Tensor> inputs_, want_;
  std::map<NodeId, std::vector<std::vector<double>>> scale_;  ///< by node and output: rounding of elements, for `sums`
  std::map<NodeId, double> winograd_;  ///< by convolution that Winograd's method may take: of all its elements
  std::map<Rounding, Spread> spreads_;
};

}  // namespace kilter
