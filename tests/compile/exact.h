// A network's result in f64, and how far a compiled network may deviate from it because it rounds to f32.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace kilter {

/// The graph with f64 in place of f32: inputs, constants, attributes, casts.
Graph in_f64(Graph graph);
Tensor to_f64(const Tensor& tensor);

/// How the nodes of a compiled network round.
enum class Rounding : uint8_t {
  sums,      ///< like sums of the operator's products, in any order
  winograd,  ///< convolutions that Winograd's method may compute round as it does, all other nodes as in `sums`
};

/// A network's result in f64 and the tolerance of each element, from the conditioning of the network at these inputs.
///
/// Each element that a node computes may have a rounding error, in units of u = 2^-24. For a contraction or reduction,
/// it is (16 + sqrt(K)) u times the sum of the magnitudes of the K terms. For other nodes, it is 16 u times the result,
/// or times the larger sum from which the definition computes the result, plus the effect of changing the operands by a
/// relative 4 u. For Winograd convolutions of C channels, it is (64 + sqrt(C)) u times the largest sum of magnitudes
/// (doc/accuracy.md). In a recurrent layer, the sums of the gates round like a contraction and by the same amount in
/// every step, which is modelled as a change of the bias; the gates' own error is 16 u times the largest state.
///
/// The network runs in f64 several times, with each element of each node changed by a random part of its rounding
/// error. The tolerance of an output is twice its largest change over these runs. An output that depends on a decision
/// (Where, integers) thus has a tolerance as large as the decision's effect, and an output near a pole has a large one.
class Exact {
 public:
  Exact(const Graph& graph, const std::vector<Tensor>& inputs);

  const std::vector<Tensor>& outputs() const { return want_; }
  /// Returns "" if output `index` of a compiled run is within the tolerance, otherwise the worst element: got,
  /// expected, allowed.
  std::string judge(size_t index, const Tensor& got, Rounding rounding);

 private:
  struct Spread {
    int runs = 0;
    std::vector<std::vector<double>> most;  ///< by output: the largest change of each element
  };
  /// Computes and stores the rounding error of each element of a node's outputs.
  void note_scale(const Node& node, NodeId id, const std::vector<Tensor>& operands, const std::vector<Tensor>& results);
  /// The rounding error of each element, for a node that sums.
  std::vector<double> sum_scale(const Node& node, NodeId id, const std::vector<Tensor>& operands, const Tensor& result);
  void sample(Spread& spread, Rounding rounding, int runs);
  std::string worst(size_t index, const Tensor& got, const Spread& spread) const;

  Graph graph_;
  std::vector<Tensor> inputs_, want_;
  std::map<NodeId, std::vector<std::vector<double>>> scale_;  ///< by node and output: rounding errors for `sums`
  std::map<NodeId, double> winograd_;  ///< rounding error of all elements, by convolution that may use Winograd
  std::map<Rounding, Spread> spreads_;
};

}  // namespace kilter
