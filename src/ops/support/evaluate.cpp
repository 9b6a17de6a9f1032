#include "ops/support/evaluate.h"

#include "ops/support/builder.h"

namespace kilter {
namespace {

void check_input(const Graph& graph, ValueId id, const Tensor& given) {
  const Value& value = graph.value(id);
  require(given.defined(), "input '{}' has no tensor", value.name);
  const TensorType type{given.dtype(), given.shape(), {}};
  const TensorType expected{value.type.dtype, value.type.shape, {}};
  if (type != expected) {
    fail(ErrorKind::bad_input, "input '{}': expected {}, got {}", value.name, text(expected), text(type));
  }
}

/// Returns, by value, how many times nodes and graph outputs read it.
std::vector<int32_t> count_reads(const Graph& graph) {
  std::vector<int32_t> reads(graph.value_count(), 0);
  for (NodeId id : graph.order()) {
    for (ValueId input : graph.node(id).inputs) {
      if (input != kNone) ++reads[static_cast<size_t>(input)];
    }
  }
  for (const Graph::Output& output : graph.outputs()) ++reads[static_cast<size_t>(output.value)];
  return reads;
}

}  // namespace

std::vector<Tensor> evaluate(const Graph& graph, const std::vector<Tensor>& inputs, const Observer& observe,
                             const RunNode& run) {
  if (inputs.size() != graph.inputs().size()) {
    fail(ErrorKind::bad_input, "graph '{}' has {} inputs, got {}", graph.name, graph.inputs().size(), inputs.size());
  }
  std::vector<Tensor> values(graph.value_count());
  for (size_t i = 0; i < inputs.size(); ++i) {
    check_input(graph, graph.inputs()[i], inputs[i]);
    values[static_cast<size_t>(graph.inputs()[i])] = inputs[i];
  }
  std::vector<int32_t> reads = count_reads(graph);
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    std::vector<Tensor> operands;
    for (ValueId input : node.inputs) {
      if (input == kNone) {
        operands.emplace_back();
      } else {
        const Value& value = graph.value(input);
        operands.push_back(value.constant ? *value.constant : values[static_cast<size_t>(input)]);
        if (--reads[static_cast<size_t>(input)] == 0) values[static_cast<size_t>(input)] = {};
      }
    }
    std::vector<TensorType> types;
    for (ValueId output : node.outputs) types.push_back(output == kNone ? TensorType{} : graph.type(output));
    const std::vector<Tensor> results =
        run ? run(node, std::move(operands), types) : run_reference(node, std::move(operands), types);
    if (observe) observe(id, results);
    for (size_t i = 0; i < results.size(); ++i) {
      const ValueId output = node.outputs[i];
      if (output != kNone && reads[static_cast<size_t>(output)] > 0) values[static_cast<size_t>(output)] = results[i];
    }
  }
  std::vector<Tensor> results;
  for (const Graph::Output& output : graph.outputs()) {
    const Value& value = graph.value(output.value);
    results.push_back(value.constant ? *value.constant : values[static_cast<size_t>(output.value)]);
  }
  return results;
}

}  // namespace kilter
