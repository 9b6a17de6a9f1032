// Properties of a network that the tests check (convolutions, operators and parameters), and its results as computed by
// the reference kernels.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "ops/support/builder.h"
#include "zoo/zoo.h"

namespace kilter::zoo {

/// A convolution as TVM's logs describe it: stride {h, w}; pads {top, left, bottom, right}.
struct Workload {
  Shape data, weights, stride, pads;
  auto operator<=>(const Workload&) const = default;
};

inline std::vector<Workload> convolutions(const Graph& graph) {
  std::vector<Workload> found;
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (node.op->name != "Conv") continue;
    found.push_back({graph.type(node.inputs[0]).shape, graph.type(node.inputs[1]).shape, node.ints_attr("strides"),
                     node.ints_attr("pads")});
  }
  return found;
}

inline std::set<Workload> distinct(const std::vector<Workload>& all) { return {all.begin(), all.end()}; }

using Counts = std::map<std::string, int>;

inline Counts operators(const Graph& graph) {
  Counts counts;
  for (const NodeId id : graph.order()) ++counts[std::string(graph.node(id).op->name)];
  return counts;
}

/// Returns the number of elements of all float constants that are not scalars.
inline int64_t parameters(const Graph& graph) {
  int64_t total = 0;
  for (ValueId id = 0; id < static_cast<ValueId>(graph.value_count()); ++id) {
    const Value& value = graph.value(id);
    if (value.dead || !value.constant || value.type.dtype != DType::f32 || value.type.shape.empty()) continue;
    total += elems(value.type.shape);
  }
  return total;
}

/// Builds a network without weights, for tests that look only at shapes and operators.
inline Graph outline(std::string_view name, Options options = {}) {
  options.weights = false;
  return build(name, options);
}

/// Returns the first output for an N(0, 1) input, computed by the reference kernels.
inline Tensor run(const Graph& graph) {
  std::map<ValueId, Tensor> values;
  const ValueId in = graph.inputs().at(0);
  Tensor input(DType::f32, graph.type(in).shape);
  Random(1, "input").fill_normal(input.span<float>());
  values[in] = input;
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    std::vector<Tensor> inputs;
    for (const ValueId v : node.inputs)
      inputs.push_back(graph.value(v).constant ? *graph.value(v).constant : values.at(v));
    values[node.outputs[0]] = run_reference(node, inputs, {graph.type(node.outputs[0])}).at(0);
  }
  return values.at(graph.outputs().at(0).value);
}

}  // namespace kilter::zoo
