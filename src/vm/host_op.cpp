#include "vm/host_op.h"

#include <algorithm>

#include "base/error.h"
#include "ops/support/builder.h"
#include "ops/support/evaluate.h"
#include "vm/regions.h"

namespace kilter::vm {
namespace {

std::vector<AnyValue> run_kernel(const Node& node, std::vector<Tensor> inputs) {
  std::vector<TensorType> types(inputs.size());
  std::vector<const TensorType*> type_of(inputs.size());
  std::vector<const Tensor*> value_of(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined()) continue;
    types[i] = {inputs[i].dtype(), inputs[i].shape(), {}};
    type_of[i] = &types[i];
    value_of[i] = &inputs[i];
  }
  std::vector<TensorType> wanted;
  for (auto& type : infer(node, std::move(type_of), std::move(value_of), node.outputs.size()))
    wanted.push_back(std::move(*type));
  std::vector<Tensor> made = run_reference(node, std::move(inputs), wanted);
  return {std::make_move_iterator(made.begin()), std::make_move_iterator(made.end())};
}

/// Runs the nodes that an operator expands to, for these operands.
std::vector<AnyValue> run_expanded(const Node& node, const std::vector<Tensor>& inputs) {
  Graph graph;
  GraphBuilder builder(graph);
  std::vector<ValueId> operands;
  for (const Tensor& input : inputs) operands.push_back(input.defined() ? builder.constant(input) : kNone);
  GraphBuilder::Options options;
  options.name = node.name;
  options.domain = node.op->domain;
  options.opset = node.opset;
  for (size_t i = 0; i < node.outputs.size(); ++i)
    options.output_names.push_back(node.outputs[i] == kNone ? "" : fmt::format("out{}", i));
  const std::vector<ValueId> made = builder.add(node.op->name, operands, node.attrs, options);
  for (const ValueId v : made) {
    if (v != kNone) graph.add_output(v, graph.value(v).name + "_" + std::to_string(graph.outputs().size()));
  }
  const std::vector<Tensor> values = evaluate(graph, {});
  std::vector<AnyValue> results;
  size_t next = 0;
  for (const ValueId v : made) results.push_back(v == kNone ? AnyValue() : AnyValue(values[next++]));
  return results;
}

}  // namespace

std::vector<AnyValue> run_op(const Node& node, std::vector<AnyValue> inputs) {
  if (node.op->run != nullptr) {
    RunContext ctx{node, std::move(inputs)};
    std::vector<AnyValue> made = node.op->run(ctx);
    made.resize(node.outputs.size());
    return made;
  }
  // Identity passes on values of any kind.
  const bool passes = node.op->family == Family::reshape && inputs.size() == 1 && node.op->max_inputs == 1;
  if (passes && !inputs[0].is_tensor() && node.op->attrs.empty()) return inputs;
  std::vector<Tensor> tensors;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const bool left_out = node.inputs[i] == kNone;
    if (!left_out && !inputs[i].is_tensor())
      node_error(node, fmt::format("input {} is {}, expected a tensor", i, text(inputs[i])));
    tensors.push_back(left_out ? Tensor() : inputs[i].tensor());
  }
  if (node.op->infer == nullptr || node.op->reference == nullptr) return run_expanded(node, tensors);
  return run_kernel(node, std::move(tensors));
}

std::vector<AnyValue> interpret(const OpenGraph& segment, std::vector<AnyValue> inputs) {
  std::vector<AnyValue> registers(segment.values.size());
  for (size_t i = 0; i < inputs.size(); ++i) registers[static_cast<size_t>(segment.inputs[i])] = std::move(inputs[i]);
  const auto value = [&](ValueId v) {
    if (v == kNone) return AnyValue();
    const OpenValue& open = segment.values[static_cast<size_t>(v)];
    return open.constant ? AnyValue(*open.constant) : registers[static_cast<size_t>(v)];
  };
  for (const OpenNode& node : segment.nodes) {
    std::vector<AnyValue> operands;
    for (const ValueId v : node.inputs) operands.push_back(value(v));
    std::vector<AnyValue> made;
    if (node.op->control == Control::branch) {
      const size_t region = chosen_branch(node, operands.at(0));
      operands.clear();
      for (const ValueId v : node.regions[region].captures) operands.push_back(value(v));
      made = interpret(*node.regions[region].graph, std::move(operands));
    } else if (!node.regions.empty()) {
      fail(ErrorKind::unsupported, "{}: the graphs in it run only as compiled code, and here they are beside strings",
           node.label);
    } else {
      check_node(node);
      made = run_op(node, std::move(operands));
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i] != kNone) registers[static_cast<size_t>(node.outputs[i])] = std::move(made[i]);
    }
  }
  std::vector<AnyValue> outputs;
  for (const OpenGraph::Output& output : segment.outputs) outputs.push_back(value(output.value));
  return outputs;
}

}  // namespace kilter::vm
