#include "vm/host_op.h"

#include <algorithm>
#include <array>
#include <new>
#include <optional>
#include <type_traits>

#include "base/error.h"
#include "exec/kernels/kernel.h"
#include "ops/support/builder.h"
#include "ops/support/evaluate.h"
#include "vm/region_copies.h"
#include "vm/regions.h"

namespace kilter::vm {
namespace {

static_assert(std::is_base_of_v<KernelAttrs, Attrs>, "kernels read the attributes of nodes as they are");

/// Allocates the outputs of a runtime kernel as tensors.
class TensorResults : public KernelResults {
 public:
  explicit TensorResults(const Node& node) : tensors(node.outputs.size()), node_(node) {}

  bool wants(size_t output) const override { return output < tensors.size() && node_.outputs[output] != kNone; }
  std::byte* make(size_t output, DType type, std::span<const int64_t> shape) override {
    require(output < tensors.size(), "{}: its kernel allocates output {} of {}", label(node_), output, tensors.size());
    tensors[output] = Tensor(type, Shape(shape.begin(), shape.end()));
    return tensors[output].raw();
  }

  std::vector<Tensor> tensors;

 private:
  const Node& node_;
};

/// Runs the runtime kernel of a node. Returns nullopt if there is none for these operands. `tensor(i)`: operand i.
template <class TensorOf>
std::optional<std::vector<Tensor>> run_runtime_kernel(const Node& node, size_t count, TensorOf tensor,
                                                      ThreadPool* pool) {
  const RuntimeKernel* kernel = find_runtime_kernel(node.op->domain, node.op->name, node.opset);
  constexpr size_t kMostOperands = 8;
  if (kernel == nullptr || count > kMostOperands) return std::nullopt;
  std::array<KernelOperand, kMostOperands> operands;
  for (size_t i = 0; i < count; ++i) {
    const Tensor& t = tensor(i);
    if (t.defined()) operands[i] = {true, t.dtype(), t.shape(), t.elems(), t.raw()};
  }
  const KernelCall call{node.op->name, node.name, node.opset, node.attrs};
  const KernelOperands given(operands.data(), count);
  TensorResults results(node);
  if (!kernel->takes(call, given) || !kernel->run(call, given, results, pool)) return std::nullopt;
  return std::move(results.tensors);
}

/// Views, copies of regions, or the reference kernel.
std::vector<Tensor> run_without_kernel(const Node& node, std::vector<Tensor> inputs,
                                       const std::vector<TensorType>& types, const HostOptions& options) {
  if (!options.reference_only) {
    const bool view = node.op->family == Family::reshape && types.size() == 1 && !inputs.empty() &&
                      inputs[0].defined() && inputs[0].dtype() == types[0].dtype;
    if (view) return {inputs[0].reshaped(types[0].shape)};
    constexpr int64_t kFewElements = 64;  // the regions would cost more than they save
    const bool many = std::ranges::any_of(types, [](const TensorType& t) { return elems(t.shape) > kFewElements; });
    if (many) {
      if (auto made = run_regions(node, inputs, types)) return std::move(*made);
    }
  }
  if (options.work_left != nullptr) {
    *options.work_left -= fold_work(view_of(node, inputs, types));
    if (*options.work_left < 0) throw TooMuchWork{label(node)};
  }
  return run_reference(node, std::move(inputs), types);
}

std::vector<AnyValue> values_of(std::vector<Tensor> tensors) {
  return {std::make_move_iterator(tensors.begin()), std::make_move_iterator(tensors.end())};
}

/// Runs a node after its shape rule.
std::vector<AnyValue> infer_and_run(const Node& node, std::vector<Tensor> inputs, const HostOptions& options) {
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
  return values_of(run_without_kernel(node, std::move(inputs), wanted, options));
}

/// Runs the nodes that an operator expands to, for these operands.
std::vector<AnyValue> run_expanded(const Node& node, const std::vector<Tensor>& inputs, const HostOptions& host) {
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
  const auto kernel = [&](const Node& inner, std::vector<Tensor> given, const std::vector<TensorType>& types) {
    return run_node(inner, std::move(given), types, host);
  };
  const std::vector<Tensor> values = evaluate(graph, {}, {}, kernel);
  std::vector<AnyValue> results;
  size_t next = 0;
  for (const ValueId v : made) results.push_back(v == kNone ? AnyValue() : AnyValue(values[next++]));
  return results;
}

}  // namespace

bool passes_on(const OpDef& op) { return op.family == Family::reshape && op.max_inputs == 1 && op.attrs.empty(); }

std::vector<AnyValue> run_op(const Node& node, std::vector<AnyValue> inputs, const HostOptions& options) {
  if (node.op->run != nullptr) {
    RunContext ctx{node, std::move(inputs)};
    std::vector<AnyValue> made;
    try {
      made = node.op->run(ctx);
    } catch (const std::bad_alloc&) {
      fail(ErrorKind::out_of_memory, "{}: out of memory while it ran", label(node));
    }
    made.resize(node.outputs.size());
    return made;
  }
  if (passes_on(*node.op) && inputs.size() == 1 && !inputs[0].is_tensor()) return inputs;
  if (!options.reference_only) {
    const auto tensor = [&](size_t i) -> const Tensor& { return inputs[i].tensor(); };
    if (auto made = run_runtime_kernel(node, inputs.size(), tensor, options.pool)) return values_of(std::move(*made));
  }
  std::vector<Tensor> tensors;
  tensors.reserve(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const bool left_out = node.inputs[i] == kNone;
    if (!left_out && !inputs[i].is_tensor())
      node_error(node, fmt::format("input {} is {}, expected a tensor", i, text(inputs[i])));
    tensors.push_back(left_out ? Tensor() : inputs[i].tensor());
  }
  if (node.op->infer == nullptr || node.op->reference == nullptr) return run_expanded(node, tensors, options);
  return infer_and_run(node, std::move(tensors), options);
}

std::vector<Tensor> run_node(const Node& node, std::vector<Tensor> inputs, const std::vector<TensorType>& types,
                             const HostOptions& options) {
  if (!options.reference_only) {
    const auto tensor = [&](size_t i) -> const Tensor& { return inputs[i]; };
    if (auto made = run_runtime_kernel(node, inputs.size(), tensor, options.pool)) return std::move(*made);
  }
  return run_without_kernel(node, std::move(inputs), types, options);
}

std::vector<AnyValue> interpret(const OpenGraph& segment, std::vector<AnyValue> inputs, const HostOptions& options) {
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
      made = interpret(*node.regions[region].graph, std::move(operands), options);
    } else if (!node.regions.empty()) {
      fail(ErrorKind::unsupported,
           "{}: the graphs in it run only as compiled code, which is not possible here because this part of the "
           "network has strings",
           node.label);
    } else {
      check_node(node);
      made = run_op(node, std::move(operands), options);
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
