// Computes the f16 and bf16 values of a network as f32 values that are stored in their declared type, so that the
// operators, patterns and templates for f32 apply to them.
//
//   %y: f16[8] = Relu(%x)        %x1: f32[8]{f16} = Cast(%x)         x, an input of the network, and r, an output, keep
//   %z: f32[8] = Cast(%y)        %y: f32[8]{f16} = Relu(%x1)         their types
//   %s: f32[8] = Exp(%z)    =>   %s: f32[8]{f16} = Exp(%y)
//   %r: f16[8] = Cast(%s)        %r: f16[8] = Cast(%s)
//
// The stored type is a wish, which choose_storage grants where kernels can read and write it. A cast to f32 disappears.
// A cast from f32 becomes the wish of the value that it reads if nothing else reads that value; otherwise it remains,
// and a second cast widens its result again. A node whose meaning depends on the narrow type, such as BitCast, keeps
// it, between casts.

#include <map>
#include <set>
#include <vector>

#include "graph/values.h"
#include "ops/support/builder.h"
#include "ops/support/onnx_dtype.h"
#include "passes/constant_memo.h"
#include "passes/pass.h"

namespace kilter {
namespace {

bool narrow(DType type) { return type == DType::f16 || type == DType::bf16; }

class Widener {
 public:
  Widener(Graph& graph, ConstantMemo* memo) : graph_(graph), memo_(memo), b_(graph) { b_.fold_limit = -1; }

  void run() {
    std::vector<size_t> narrow_outputs;
    for (size_t i = 0; i < graph_.outputs().size(); ++i) {
      if (is_narrow(graph_.outputs()[i].value)) narrow_outputs.push_back(i);
    }
    for (ValueId v = 0, all = static_cast<ValueId>(graph_.value_count()); v < all; ++v) widen_constant(v);
    const std::vector<NodeId> nodes = graph_.order();  // those of the model
    for (ValueId v : std::vector<ValueId>(graph_.inputs())) {
      if (is_narrow(v)) add_wide(v);
    }
    for (NodeId id : nodes) visit(id);
    for (size_t i : narrow_outputs) graph_.set_output(i, narrowed(graph_.outputs()[i].value));
    widen_replaced();
    graph_.sort();
    graph_.remove_dead();
  }

 private:
  bool is_narrow(ValueId v) const { return v != kNone && narrow(graph_.type(v).dtype); }

  void widen_constant(ValueId v) {
    if (graph_.value(v).dead || constant_of(graph_, v) == nullptr || !is_narrow(v)) return;
    Value& value = graph_.change_value(v);
    constants_.emplace(v, *value.constant);
    declared_[v] = value.type.dtype;
    const auto widen = [constant = *value.constant] { return std::vector{constant.widened()}; };
    value.constant = memo_ != nullptr ? memo_->get("widen", {&*value.constant, 1}, widen).front() : widen().front();
    value.type.dtype = DType::f32;
  }

  ValueId cast(ValueId v, DType type) {
    const std::string title = graph_.value(v).name + "." + std::string(name(type));
    return b_.add("Cast", {v}, {{"to", code_of_dtype(type)}}, title);
  }

  /// Adds the f32 form of a value that stays narrow in the graph.
  void add_wide(ValueId v) { pair(v, cast(v, DType::f32)); }

  /// Makes `wide` the f32 form of `v`, stored in the type of `v`.
  void pair(ValueId v, ValueId wide) {
    wide_[v] = wide;
    narrow_[wide] = v;
    graph_.change_value(wide).type.layout.stored = graph_.type(v).dtype;
  }

  /// The f32 form of an operand; other operands unchanged.
  ValueId wide(ValueId v) const {
    const auto it = wide_.find(v);
    return it == wide_.end() ? v : it->second;
  }

  /// The form of an operand in the type that the model declares.
  ValueId narrowed(ValueId v) {
    const auto declared = declared_.find(v);
    if (declared == declared_.end()) return v;
    const auto [it, fresh] = narrow_.try_emplace(v, kNone);
    if (!fresh) return it->second;
    const auto constant = constants_.find(v);
    return it->second = constant == constants_.end() ? cast(v, declared->second)
                                                     : b_.constant(constant->second, graph_.value(v).name);
  }

  void visit(NodeId id) {
    const Node& node = graph_.node(id);
    const auto declared_narrow = [&](ValueId v) { return is_narrow(v) || declared_.contains(v); };
    if (std::ranges::none_of(node.inputs, declared_narrow) && std::ranges::none_of(node.outputs, declared_narrow))
      return;
    if (changes_float_type(node)) return visit_cast(id);
    std::vector<ValueId> inputs = node.inputs;
    for (ValueId& in : inputs) in = wide(in);
    if (widens(node, inputs)) {
      graph_.change_node(id).inputs = std::move(inputs);
      for (ValueId out : graph_.node(id).outputs) {
        if (is_narrow(out)) widen_result(out);
      }
      return;
    }
    inputs = node.inputs;
    for (ValueId& in : inputs) in = narrowed(in);
    graph_.change_node(id).inputs = std::move(inputs);
    for (ValueId out : std::vector<ValueId>(graph_.node(id).outputs)) {
      if (is_narrow(out)) add_wide(out);
    }
  }

  void widen_result(ValueId v) {
    TensorType& type = graph_.change_value(v).type;
    declared_[v] = type.dtype;
    type.layout.stored = type.dtype;
    type.dtype = DType::f32;
  }

  /// Gives the values that earlier passes have replaced the types of their replacements.
  void widen_replaced() {
    for (ValueId v = 0, all = static_cast<ValueId>(graph_.value_count()); v < all; ++v) {
      if (!is_narrow(v)) continue;
      ValueId last = v;
      while (graph_.value(last).replaced_by != kNone) last = graph_.value(last).replaced_by;
      if (graph_.type(last).dtype == DType::f32) graph_.change_value(v).type.dtype = DType::f32;
    }
  }

  /// Whether the node only changes its operand between f32, f16 and bf16.
  bool changes_float_type(const Node& node) const {
    const auto one = [&](ValueId v) { return is_narrow(v) || (v != kNone && graph_.type(v).dtype == DType::f32); };
    return node.op->family == Family::map && node.op->passes_values && one(node.inputs[0]) && one(node.outputs[0]) &&
           declared(node.inputs[0]) != declared(node.outputs[0]);
  }

  DType declared(ValueId v) const {
    const auto it = declared_.find(v);
    return it == declared_.end() ? graph_.type(v).dtype : it->second;
  }

  void visit_cast(NodeId id) {
    const ValueId from = graph_.node(id).inputs[0], to = graph_.node(id).outputs[0];
    const ValueId source = wide(from);
    if (!is_narrow(to)) {
      graph_.replace_uses(to, source);
      return graph_.erase(id);
    }
    const bool rounds = may_round(source, id);
    graph_.change_node(id).inputs[0] = source;
    rounds ? pair(to, source) : add_wide(to);
  }

  /// Whether storing `v` in a narrow type rounds it for no reader but the cast `id`. A view shares the memory of other
  /// values.
  bool may_round(ValueId v, NodeId id) const {
    const Value& value = graph_.value(v);
    if (value.producer == kNone || value.type.layout.stored || declared_.contains(v) || narrow_.contains(v) ||
        graph_.is_output(v) || graph_.only_user(v) != id)
      return false;
    const OpDef& op = *graph_.node(value.producer).op;
    return op.family != Family::reshape && op.family != Family::movement && op.movement != Movement::relayout;
  }

  /// Whether the node has the same results, in f32, with the operands `inputs` in place of its own.
  bool widens(const Node& node, const std::vector<ValueId>& inputs) const {
    if (node.op->infer == nullptr) return false;
    std::vector<const TensorType*> types;
    std::vector<const Tensor*> values;
    for (ValueId in : inputs) {
      types.push_back(in == kNone ? nullptr : &graph_.type(in));
      values.push_back(constant_of(graph_, in));
    }
    std::vector<std::optional<TensorType>> made;
    try {
      made = infer(node, std::move(types), std::move(values), node.outputs.size());
    } catch (const Error&) {
      return false;
    } catch (const NeedsValue&) {
      return false;
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i] == kNone) continue;
      const TensorType& own = graph_.type(node.outputs[i]);
      const DType want = narrow(own.dtype) ? DType::f32 : own.dtype;
      if (!made[i] || made[i]->dtype != want || made[i]->shape != own.shape) return false;
    }
    return true;
  }

  Graph& graph_;
  ConstantMemo* memo_;
  GraphBuilder b_;
  std::map<ValueId, DType> declared_;    ///< the declared types of values and constants that are f32 now
  std::map<ValueId, Tensor> constants_;  ///< the elements of constants in their declared types
  std::map<ValueId, ValueId> wide_;      ///< the f32 forms of values that stay narrow
  std::map<ValueId, ValueId> narrow_;    ///< the forms of f32 values in their declared types
};

/// Whether nodes read or compute narrow values. False if stored types have been chosen already.
bool has_narrow_values(const Graph& graph) {
  bool any = false;
  for (NodeId id : graph.order()) {
    for (const auto* values : {&graph.node(id).inputs, &graph.node(id).outputs}) {
      for (ValueId v : *values) {
        if (v == kNone) continue;
        if (graph.type(v).layout.stored) return false;
        any = any || narrow(graph.type(v).dtype);
      }
    }
  }
  return any;
}

}  // namespace

void widen_floats(Graph& graph, PassContext& context) {
  if (has_narrow_values(graph) && context.take()) Widener(graph, context.memo).run();
}

}  // namespace kilter
