// Stores values as bf16 where the compilation's precision asks for it. Arithmetic between a node's operands and results
// stays in f32, except that convolutions and products multiply the stored bf16.
//
//   %y = Conv(%x, %w)            %x1 = Relayout(%x)          x, an input of the network: f32[1,64,56,56]{c16}
//   %z = Relu(%y)         =>     %y = Conv(%x1, %w)          x1, y: f32[1,64,56,56]{bf16 c16}
//   %r = Softmax(%z)             %z = Relu(%y)               r, an output of the network: f32[...]
//                                %r = Softmax(%z)
//
// Values that are views of one another are stored alike.

#include <numeric>
#include <vector>

#include "graph/values.h"
#include "ops/op.h"
#include "ops/support/relayout.h"
#include "passes/pass.h"

namespace kilter {
namespace {

class Storages {
 public:
  Storages(Graph& graph, PassContext& context) : graph_(graph), context_(context) {}

  void run() {
    if (context_.precision == Precision::declared) return;
    store_ports();
    classes_.resize(graph_.value_count());
    std::iota(classes_.begin(), classes_.end(), 0);
    wide_.assign(graph_.value_count(), false);
    for (ValueId v : graph_.inputs()) keep_wide(v);
    for (const auto& output : graph_.outputs()) {
      if (!context_.stored_ports.contains(output.name)) keep_output(output.value);
    }
    for (NodeId id : graph_.order()) visit(graph_.node(id));
    for (NodeId id : graph_.order()) {
      for (ValueId v : graph_.node(id).outputs) {
        if (v != kNone && narrows(v) && changes()) graph_.change_value(v).type.layout.stored = kType;
      }
    }
    for (NodeId id : std::vector<NodeId>(graph_.order())) convert_operands(id);
    graph_.sort();
  }

 private:
  static constexpr DType kType = DType::bf16;

  /// Makes copies of the inputs and outputs in PassContext::stored_ports, so that all layers read and write values that
  /// may be stored in another type.
  void store_ports() {
    for (ValueId v : graph_.inputs()) {
      if (!context_.stored_ports.contains(graph_.value(v).name) || !f32(v) || !changes()) continue;
      const std::vector<NodeId> readers = graph_.users(v);
      const ValueId copy = stored_copy(v);
      for (NodeId reader : readers) std::ranges::replace(graph_.change_node(reader).inputs, v, copy);
    }
    for (size_t i = 0; i < graph_.outputs().size(); ++i) {
      const ValueId v = graph_.outputs()[i].value;
      const NodeId producer = graph_.value(v).producer;
      const bool copied = producer != kNone && graph_.node(producer).op->movement == Movement::relayout;
      if (!context_.stored_ports.contains(graph_.outputs()[i].name) || !f32(v) || !changes()) continue;
      graph_.set_output(i, add_relayout(graph_, copied ? graph_.node(producer).inputs[0] : v, Layout{}, "stored"));
    }
    if (changed_) graph_.sort();
  }

  /// A copy of `v` in the same layout, stored as bf16.
  ValueId stored_copy(ValueId v) {
    Layout layout = graph_.type(v).layout;
    layout.stored = kType;
    return add_relayout(graph_, v, layout, name(kType));
  }

  bool held(const Node& node) const { return context_.keep_float.contains(node.name); }
  bool constant(ValueId v) const { return constant_of(graph_, v) != nullptr; }
  bool f32(ValueId v) const { return v != kNone && graph_.type(v).dtype == DType::f32; }

  /// Keeps an output of the network in f32, and the values that it is only a copy of.
  void keep_output(ValueId v) {
    keep_wide(v);
    const NodeId producer = graph_.value(v).producer;
    if (producer != kNone && graph_.node(producer).op->movement == Movement::relayout)
      keep_output(graph_.node(producer).inputs[0]);
  }

  /// Whether kernels of the family read and write values that are stored in another type. Reference kernels do not; a
  /// recurrence rounds its state in every step.
  static bool converts(Family family) {
    return family != Family::reference && family != Family::recurrent && family != Family::gemm;
  }

  /// Notes what a node demands of its operands and results. Constants say nothing about the values that they meet.
  void visit(const Node& node) {
    const bool views = node.op->family == Family::reshape || node.op->family == Family::movement;
    const bool wide = !converts(node.op->family) || held(node);
    ValueId first = kNone;
    for (const auto* values : {&node.inputs, &node.outputs}) {
      for (ValueId v : *values) {
        if (v == kNone || constant(v)) continue;
        if (wide || !f32(v)) keep_wide(v);
        if (!views) continue;
        if (first == kNone) first = v;
        join(first, v);
      }
    }
  }

  ValueId root(ValueId v) {
    while (classes_[static_cast<size_t>(v)] != v) {
      ValueId& parent = classes_[static_cast<size_t>(v)];
      parent = classes_[static_cast<size_t>(parent)];
      v = parent;
    }
    return v;
  }
  void join(ValueId a, ValueId b) {
    a = root(a), b = root(b);
    classes_[static_cast<size_t>(b)] = a;
    if (wide_[static_cast<size_t>(b)]) wide_[static_cast<size_t>(a)] = true;
  }
  void keep_wide(ValueId v) { wide_[static_cast<size_t>(root(v))] = true; }
  bool narrows(ValueId v) {
    return f32(v) && !constant(v) && !graph_.type(v).layout.stored && !wide_[static_cast<size_t>(root(v))];
  }

  /// Whether the pass may change the graph. All of its changes count as one rewrite, because values that are views of
  /// one another change together.
  bool changes() {
    if (!changed_) changed_ = context_.take();
    return *changed_;
  }

  /// Converts the operands of a convolution or product that are stored as f32.
  void convert_operands(NodeId id) {
    if (held(graph_.node(id))) return;
    const Family family = graph_.node(id).op->family;
    if (family == Family::conv && multiplies_channels(graph_.node(id))) convert_operand(id, 0);
    if (family == Family::matmul) convert_operand(id, 0), convert_operand(id, 1);
  }

  /// Whether a convolution sums over blocks of input channels.
  bool multiplies_channels(const Node& node) const {
    const TensorType &x = graph_.type(node.inputs[0]), &w = graph_.type(node.inputs[1]);
    return x.layout.block > 1 && w.shape.size() == 4 && w.shape[1] > 1;
  }

  void convert_operand(NodeId id, size_t i) {
    const ValueId v = graph_.node(id).inputs[i];
    if (!f32(v) || constant(v) || graph_.type(v).layout.stored || !changes()) return;
    const auto [made, fresh] = converted_.try_emplace(v, kNone);
    if (fresh) made->second = stored_copy(v);
    graph_.change_node(id).inputs[i] = made->second;
  }

  Graph& graph_;
  PassContext& context_;
  std::vector<ValueId> classes_;  ///< by value: its parent in the tree of the values that are stored alike
  std::vector<bool> wide_;        ///< by root: the values stay in f32
  std::map<ValueId, ValueId> converted_;
  std::optional<bool> changed_;  ///< the answer of PassContext::take(), once it has been asked
};

}  // namespace

void choose_storage(Graph& graph, PassContext& context) { Storages(graph, context).run(); }

}  // namespace kilter
