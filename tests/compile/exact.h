// A network's result in f64, and how far rounding to f32 may carry a compiled network from it.
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
  sums,      ///< as sums of an operator's products, in any order
  winograd,  ///< convolutions that Winograd's method may compute round by its rules, all others as in `sums`
};

/// A network's result in f64 and the tolerance of each element, from the conditioning of the network at these inputs.
///
/// Every node may be off by a multiple of u = 2^-24 of what its kernel sums. For a contraction or reduction that is
/// (16 + sqrt(K)) u of the sum of the magnitudes of its K terms. For other nodes it is 16 u of the result, or of the
/// larger sum from which its definition computes it, plus the effect of changing its operands by 4 u. For Winograd
/// convolutions it is (64 + sqrt(C)) u of the largest sum of magnitudes (doc/accuracy.md). The sums of a recurrent
/// layer's gates round as a contraction does, equally in every step: as a change of its bias. Its gates round at 1 and
/// multiply the largest state.
///
/// The network runs in f64 with each element of each node changed by a random part of that. The tolerance of an output
/// is twice its largest change over these runs. Outputs that depend on decisions (Where, integers) thus get a tolerance
/// as large as the effect of the decision, and so do outputs near a pole.
class Exact {
 public:
  Exact(const Graph& graph, const std::vector<Tensor>& inputs);

  const std::vector<Tensor>& outputs() const { return want_; }
  /// "" if output `index` of a compiled run is within the tolerance, else the worst element: got, expected, allowed.
  std::string judge(size_t index, const Tensor& got, Rounding rounding);

 private:
  struct Spread {
    int runs = 0;
    std::vector<std::vector<double>> most;  ///< by output: the largest change of each element
  };
  /// Records the rounding of each element of a node's outputs, from its operands.
  void note_scale(const Node& node, NodeId id, const std::vector<Tensor>& operands, const std::vector<Tensor>& results);
  /// The rounding of each element, for a node that sums.
  std::vector<double> sum_scale(const Node& node, NodeId id, const std::vector<Tensor>& operands, const Tensor& result);
  void sample(Spread& spread, Rounding rounding, int runs);
  std::string worst(size_t index, const Tensor& got, const Spread& spread) const;

  Graph graph_;
  std::vector<Tensor> inputs_, want_;
  std::map<NodeId, std::vector<std::vector<double>>> scale_;  ///< by node and output: elements' rounding, for `sums`
  std::map<NodeId, double> winograd_;  ///< rounding of all elements, by convolution that Winograd's method may take
  std::map<Rounding, Spread> spreads_;
};

}  // namespace kilter
