#include "vm/type_flow.h"

#include <algorithm>

#include "base/error.h"
#include "ops/op.h"
#include "ops/support/builder.h"

namespace kilter::vm {
namespace {

using Known = std::vector<KnownType>;

TensorType type_of(const Tensor& tensor) { return {tensor.dtype(), tensor.shape(), {}}; }

class Flow {
 public:
  Flow(const Program& program, const SegmentTypes& types)
      : program_(program), types_(types), closed_(program.segments.size(), true) {}

  Known call(int32_t function, const Known& inputs) {
    const Function& f = program_.functions[static_cast<size_t>(function)];
    const OpenGraph& graph = *f.graph;
    Known registers(graph.values.size());
    for (size_t v = 0; v < graph.values.size(); ++v) {
      if (graph.values[v].constant) registers[v] = type_of(*graph.values[v].constant);
    }
    for (size_t i = 0; i < inputs.size() && i < graph.inputs.size(); ++i) {
      const auto v = static_cast<size_t>(graph.inputs[i]);
      if (!graph.values[v].constant) registers[v] = inputs[i];
    }
    for (const Instr& instr : f.code) {
      Known results = execute(instr, graph, registers);
      results.resize(instr.outputs.size());
      for (size_t i = 0; i < results.size(); ++i) {
        if (instr.outputs[i] != kNone) registers[static_cast<size_t>(instr.outputs[i])] = std::move(results[i]);
      }
    }
    Known outputs;
    for (const OpenGraph::Output& output : graph.outputs)
      outputs.push_back(output.value == kNone ? KnownType() : registers[static_cast<size_t>(output.value)]);
    return outputs;
  }

  std::vector<bool> closed() && { return std::move(closed_); }

 private:
  static Known operands(const std::vector<ValueId>& values, const Known& registers) {
    Known all;
    for (const ValueId v : values) all.push_back(v == kNone ? KnownType() : registers[static_cast<size_t>(v)]);
    return all;
  }

  Known execute(const Instr& instr, const OpenGraph& graph, const Known& registers) {
    const Known inputs = operands(instr.inputs, registers);
    if (instr.kind == Instr::Kind::segment) return segment(instr.segment, inputs);
    if (instr.node->op == nullptr) return {};
    if (instr.kind == Instr::Kind::op) return op(*instr.node, graph, inputs);
    switch (instr.node->op->control) {
      case Control::branch:
        return branch(instr, registers);
      case Control::loop:
        return loop(instr, inputs, registers);
      case Control::scan:
        return scan(instr, inputs, registers);
      default:
        for (size_t region = 0; region < instr.functions.size(); ++region) region_types(instr, region, {}, registers);
        return {};
    }
  }

  Known segment(int32_t s, const Known& inputs) {
    std::vector<TensorType> types;
    for (const KnownType& type : inputs) {
      if (!type || type->dtype == DType::string) {
        closed_[static_cast<size_t>(s)] = false;
        return {};
      }
      types.push_back(*type);
    }
    const auto made = types_(s, types);
    if (!made) {
      closed_[static_cast<size_t>(s)] = false;
      return {};
    }
    return {made->begin(), made->end()};
  }

  /// Most operators on the host have types that depend on data, but not all.
  static Known op(const OpenNode& node, const OpenGraph& graph, const Known& inputs) {
    if (node.op->infer == nullptr) return {};
    std::vector<const TensorType*> types;
    std::vector<const Tensor*> values;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (node.inputs[i] != kNone && !inputs[i]) return {};
      types.push_back(inputs[i] ? &*inputs[i] : nullptr);
      const bool constant = node.inputs[i] != kNone && graph.values[static_cast<size_t>(node.inputs[i])].constant;
      values.push_back(constant ? &*graph.values[static_cast<size_t>(node.inputs[i])].constant : nullptr);
    }
    try {
      return infer(node, std::move(types), std::move(values), node.outputs.size());
    } catch (const NeedsValue&) {
      return {};
    } catch (const Error&) {  // it fails if it runs
      return {};
    }
  }

  /// Returns the types of a region's outputs. `own`: those of its own inputs; those that it lacks are unknown.
  Known region_types(const Instr& instr, size_t region, Known own, const Known& registers) {
    const Region& r = instr.node->regions[region];
    own.resize(r.graph->own_inputs);
    const Known captured = operands(r.captures, registers);
    own.insert(own.end(), captured.begin(), captured.end());
    return call(instr.functions[region], own);
  }

  Known branch(const Instr& instr, const Known& registers) {
    std::optional<Known> both;
    for (size_t region = 0; region < instr.functions.size(); ++region) {
      Known made = region_types(instr, region, {}, registers);
      made.resize(instr.outputs.size());
      if (!both) both = made;
      for (size_t i = 0; i < made.size(); ++i) {
        if ((*both)[i] != made[i]) (*both)[i].reset();
      }
    }
    return both.value_or(Known());
  }

  /// Follows the body until the types of the values that iterations pass on do not change. `first`, `given`: own inputs
  /// before and after these values. Returns the types of the body's outputs; `skipped` outputs come before the values.
  Known iterate(const Instr& instr, const Known& first, Known& state, const Known& given, size_t skipped,
                const Known& registers) {
    for (;;) {
      Known own = first;
      own.insert(own.end(), state.begin(), state.end());
      own.insert(own.end(), given.begin(), given.end());
      Known made = region_types(instr, 0, own, registers);
      made.resize(std::max(made.size(), skipped + state.size()));
      bool changed = false;
      for (size_t i = 0; i < state.size(); ++i) {
        if (!state[i] || state[i] == made[skipped + i]) continue;
        state[i].reset();
        changed = true;
      }
      if (!changed) return made;
    }
  }

  Known loop(const Instr& instr, const Known& inputs, const Known& registers) {
    if (instr.functions.size() != 1) return {};
    const Known first = {TensorType{DType::i64, {}, {}}, TensorType{DType::boolean, {}, {}}};
    Known state(inputs.begin() + std::min<std::ptrdiff_t>(2, std::ssize(inputs)), inputs.end());
    iterate(instr, first, state, {}, 1, registers);
    return state;
  }

  Known scan(const Instr& instr, const Known& inputs, const Known& registers) {
    if (instr.functions.size() != 1) return {};
    const OpenNode& node = *instr.node;
    const int64_t scans = node.int_attr("num_scan_inputs", 1);
    const bool batched = node.opset < 9;
    if (batched || scans < 0 || scans > std::ssize(inputs)) {
      region_types(instr, 0, {}, registers);
      return {};
    }
    const std::vector<int64_t> axes = node.ints_attr("scan_input_axes");
    const auto states = inputs.size() - static_cast<size_t>(scans);
    Known state(inputs.begin(), inputs.begin() + static_cast<std::ptrdiff_t>(states)), slices;
    for (size_t i = states; i < inputs.size(); ++i) {
      KnownType slice = inputs[i];
      const int64_t axis = i - states < axes.size() ? axes[i - states] : 0;
      const int64_t rank = slice ? std::ssize(slice->shape) : 0;
      if (axis < -rank || axis >= rank) slice.reset();
      if (slice) slice->shape.erase(slice->shape.begin() + (axis < 0 ? axis + rank : axis));
      slices.push_back(std::move(slice));
    }
    iterate(instr, {}, state, slices, 0, registers);
    return state;
  }

  const Program& program_;
  const SegmentTypes& types_;
  std::vector<bool> closed_;
};

}  // namespace

std::vector<bool> follow_types(const Program& program, const std::vector<KnownType>& inputs,
                               const SegmentTypes& types) {
  Flow flow(program, types);
  flow.call(0, inputs);
  return std::move(flow).closed();
}

}  // namespace kilter::vm
