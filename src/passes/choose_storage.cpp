// Stores values in a narrower type where the compilation's precision or the model asks for it. Arithmetic between a
// node's operands and results stays in f32, except that convolutions and products multiply stored bf16.
//
//   %y = Conv(%x, %w)            %x1 = Relayout(%x)          x, an input of the network: f32[1,64,56,56]{c16}
//   %z = Relu(%y)         =>     %y = Conv(%x1, %w)          x1, y: f32[1,64,56,56]{bf16 c16}
//   %r = Softmax(%z)             %z = Relu(%y)               r, an output of the network: f32[...]
//                                %r = Softmax(%z)
//
// A precision asks for one type for all values. The model's wishes are the types in which values are stored before this
// pass; a wish that kernels cannot honour is dropped. Values that are views of one another are stored alike.

#include <map>
#include <vector>

#include "graph/values.h"
#include "ops/op.h"
#include "ops/support/relayout.h"
#include "passes/pass.h"
#include "passes/stored_alike.h"
#include "passes/stored_ports.h"

namespace kilter {
namespace {

class Storages {
 public:
  Storages(Graph& graph, PassContext& context)
      : graph_(graph), context_(context), asked_(stored_type(context.precision)) {}

  void run() {
    if (asked_) store_ports(graph_, context_, *asked_, [this] { return changes(); });
    take_wishes();
    if (!any_) return;
    alike_.emplace(graph_.value_count());
    for (ValueId v : graph_.inputs()) alike_->keep_wide(v);
    for (const auto& output : graph_.outputs()) {
      if (!asked_ || !stores_port(context_, output.name, *asked_)) keep_output(output.value);
    }
    for (NodeId id : graph_.order()) visit(graph_.node(id));
    for (NodeId id : graph_.order()) {
      for (ValueId v : graph_.node(id).outputs) {
        if (v != kNone) store(v);
      }
    }
    for (ValueId v = 0, all = static_cast<ValueId>(wishes_.size()); v < all; ++v) store_constant(v);
    if (asked_ == DType::bf16) {
      for (NodeId id : std::vector<NodeId>(graph_.order())) convert_operands(id);
    }
    graph_.sort();
  }

 private:
  /// A copy of `v` in the same layout, stored in the type that the precision asks for.
  ValueId stored_copy(ValueId v) {
    Layout layout = graph_.type(v).layout;
    layout.stored = *asked_;
    return add_relayout(graph_, v, layout, name(*asked_));
  }

  bool held(const Node& node) const { return context_.keep_float.contains(node.name); }
  bool constant(ValueId v) const { return constant_of(graph_, v) != nullptr; }
  bool f32(ValueId v) const { return v != kNone && graph_.type(v).dtype == DType::f32; }

  /// Sets the type in which each value should be stored, constants excluded.
  void take_wishes() {
    wishes_.resize(graph_.value_count());
    for (ValueId v = 0, all = static_cast<ValueId>(wishes_.size()); v < all; ++v) {
      if (graph_.value(v).dead || !f32(v) || constant(v)) continue;
      std::optional<DType>& wish = wishes_[static_cast<size_t>(v)];
      wish = asked_ ? asked_ : graph_.type(v).layout.stored;
      any_ = any_ || wish;
      if (!asked_ && wish == DType::f16 && !context_.limits.f16_convert) wish.reset();
    }
    if (!asked_) pass_wishes_on();
  }

  /// Passes wishes through views and copies, for values that passes have created. A result is stored as its operands
  /// are; an operand that nothing else reads is stored as the result.
  void pass_wishes_on() {
    const std::vector<NodeId>& order = graph_.order();
    for (NodeId id : order) {
      const Node& node = graph_.node(id);
      if (!moves(node)) continue;
      std::optional<DType> wish;
      bool alike = true;
      for (ValueId in : node.inputs) {
        if (!f32(in) || constant(in)) continue;
        alike = alike && wish_of(in) && (!wish || wish == wish_of(in));
        wish = wish_of(in);
      }
      for (ValueId out : node.outputs) {
        if (alike && f32(out) && !wish_of(out)) wishes_[static_cast<size_t>(out)] = wish;
      }
    }
    for (auto id = order.rbegin(); id != order.rend(); ++id) {
      const Node& node = graph_.node(*id);
      if (!moves(node) || node.outputs[0] == kNone || !wish_of(node.outputs[0])) continue;
      for (ValueId in : node.inputs) {
        const bool only = f32(in) && !constant(in) && graph_.only_user(in) == *id && !graph_.is_output(in);
        if (only && !wish_of(in)) wishes_[static_cast<size_t>(in)] = wish_of(node.outputs[0]);
      }
    }
  }
  static bool views(const Node& node) {
    return node.op->family == Family::reshape || node.op->family == Family::movement;
  }
  static bool moves(const Node& node) { return views(node) || node.op->movement == Movement::relayout; }
  std::optional<DType> wish_of(ValueId v) const { return wishes_[static_cast<size_t>(v)]; }

  /// Keeps an output of the network in f32, and the values that it is only a copy of.
  void keep_output(ValueId v) {
    alike_->keep_wide(v);
    const NodeId producer = graph_.value(v).producer;
    if (producer != kNone && graph_.node(producer).op->movement == Movement::relayout)
      keep_output(graph_.node(producer).inputs[0]);
  }

  /// Notes what a node demands of its operands and results. Constants say nothing about the values that they meet.
  void visit(const Node& node) {
    const bool wide = !converts_elements(node.op->family) || held(node);
    ValueId first = kNone;
    for (const auto* values : {&node.inputs, &node.outputs}) {
      for (ValueId v : *values) {
        if (v == kNone || constant(v)) continue;
        if (wide || !f32(v)) alike_->keep_wide(v);
        if (!views(node)) continue;
        if (first == kNone) first = v;
        if (wish_of(v) != wish_of(first)) alike_->keep_wide(v);
        alike_->join(first, v);
      }
    }
    // A convolution of plain images would convert each f16 once for each filter tap.
    if (node.op->family == Family::conv && !multiplies_channels(node) && wish_of(node.inputs[0]) == DType::f16 &&
        graph_.type(node.inputs[0]).layout.block == 1)
      alike_->keep_wide(node.inputs[0]);
  }

  /// Stores a value as it should be, unless its kernels need it in f32.
  void store(ValueId v) {
    const std::optional<DType> now = graph_.type(v).layout.stored;
    std::optional<DType> type = alike_->wide(v) ? std::nullopt : wish_of(v);
    if (type == now || (asked_ && now)) return;  // copies are stored as they were created
    if (type && !changes()) type.reset();
    graph_.change_value(v).type.layout.stored = type;
  }

  /// Whether the pass may change the graph. All of its changes count as one rewrite, because values that are views of
  /// one another change together.
  bool changes() {
    if (!changed_) changed_ = context_.take();
    return *changed_;
  }

  /// Stores weights and tables of rows in the type that the results of all their readers should have, if it represents
  /// their elements precisely enough. Weights that are f16 in a model with narrow values are stored so in any case:
  /// rewriting may have lost the wish of the result. Small constants stay in f32. Weights for products of bf16 are
  /// packed as the other operand is stored.
  void store_constant(ValueId v) {
    const Value& value = graph_.value(v);
    constexpr int64_t kFew = 1024;
    if (value.dead || !value.constant || !f32(v) || elems(value.type.shape) < kFew || value.type.layout.stored) return;
    std::optional<DType> type;
    for (NodeId id : graph_.users(v)) {
      const std::optional<DType> wanted = constant_type(graph_.node(id), v);
      if (!wanted || (type && type != wanted)) return;
      type = wanted;
    }
    if (!type || graph_.is_output(v) || !fits(*value.constant, *type) || !changes()) return;
    graph_.change_value(v).type.layout.stored = type;
  }

  std::optional<DType> constant_type(const Node& node, ValueId v) const {
    const ValueId out = node.outputs[0];
    if (out == kNone || held(node) || std::ranges::count(node.inputs, v) != 1) return std::nullopt;
    const Family family = node.op->family;
    const bool weights = (family == Family::conv || family == Family::matmul) && node.inputs[1] == v;
    const bool table = family == Family::gather && node.inputs[0] == v && (!asked_ || asked_ == DType::f16);
    if (table) return graph_.type(out).layout.stored;
    if (!weights || !context_.limits.f16_convert) return std::nullopt;
    const bool f16 = wish_of(out) == DType::f16 || (!asked_ && survives(*constant_of(graph_, v)));
    return f16 ? std::optional(DType::f16) : std::nullopt;
  }

  /// Whether f16 represents every element of a constant exactly.
  static bool survives(const Tensor& constant) {
    return std::ranges::all_of(constant.span<float>(), [](float x) { return static_cast<float>(Half(x)) == x; });
  }

  /// Whether rounding a constant to a narrow type changes it by no more than the type's precision. Otherwise elements
  /// overflow, or most are so small that f16 has only a few digits of them, as weights that contain the factor of a
  /// normalisation may be.
  static bool fits(const Tensor& constant, DType type) {
    const double unit = type == DType::f16 ? 0x1p-11 : 0x1p-8;
    double error = 0, total = 0;
    for (const float x : constant.span<float>()) {
      const float rounded = type == DType::f16 ? static_cast<float>(Half(x)) : static_cast<float>(BFloat16(x));
      const double e = double{x} - rounded;
      error += e * e, total += double{x} * x;
    }
    return error <= total * unit * unit;
  }

  /// Converts the operands of a convolution or product that are stored as f32.
  void convert_operands(NodeId id) {
    if (held(graph_.node(id))) return;
    const Family family = graph_.node(id).op->family;
    if (family == Family::conv && (multiplies_channels(graph_.node(id)) || multiplies_rows(graph_.node(id))))
      convert_operand(id, 0);
    if (family == Family::matmul) convert_operand(id, 0), convert_operand(id, 1);
    if (family == Family::matmul && turned(graph_.node(id).inputs[0])) copy_operand(id, 0);
  }

  /// Whether the columns of a matrix are those of another value in a different order. Products multiply pairs of
  /// neighbours, which such a view does not have.
  bool turned(ValueId v) const {
    const NodeId producer = graph_.value(v).producer;
    if (producer == kNone || graph_.node(producer).op->movement != Movement::transpose) return false;
    return graph_.node(producer).ints_attr("perm").back() != std::ssize(graph_.type(v).shape) - 1;
  }

  /// Whether a convolution sums over blocks of input channels.
  bool multiplies_channels(const Node& node) const {
    const TensorType &x = graph_.type(node.inputs[0]), &w = graph_.type(node.inputs[1]);
    return x.layout.block > 1 && w.shape.size() == 4 && w.shape[1] > 1;
  }

  /// Whether a convolution of plain images multiplies pairs of neighbours in their rows.
  bool multiplies_rows(const Node& node) const {
    const TensorType &x = graph_.type(node.inputs[0]), &w = graph_.type(node.inputs[1]);
    const std::vector<int64_t> dilations = node.ints_attr("dilations");
    return x.layout.block == 1 && w.shape.size() == 4 && w.shape[3] > 1 && node.int_attr("group", 1) == 1 &&
           (dilations.empty() || dilations.back() == 1);
  }

  void convert_operand(NodeId id, size_t i) {
    const ValueId v = graph_.node(id).inputs[i];
    if (f32(v) && !constant(v) && !graph_.type(v).layout.stored) copy_operand(id, i);
  }

  /// Makes a node read a copy that is stored in the type that the precision asks for.
  void copy_operand(NodeId id, size_t i) {
    const ValueId v = graph_.node(id).inputs[i];
    if (!changes()) return;
    const auto [made, fresh] = converted_.try_emplace(v, kNone);
    if (fresh) made->second = stored_copy(v);
    graph_.change_node(id).inputs[i] = made->second;
  }

  Graph& graph_;
  PassContext& context_;
  std::optional<DType> asked_;                ///< the type that the precision asks for
  std::vector<std::optional<DType>> wishes_;  ///< by value: the type in which it should be stored
  bool any_ = false;                          ///< whether the precision or the model asks for any type
  std::optional<StoredAlike> alike_;
  std::map<ValueId, ValueId> converted_;
  std::optional<bool> changed_;  ///< the result of PassContext::take(), once it has been called
};

}  // namespace

void choose_storage(Graph& graph, PassContext& context) { Storages(graph, context).run(); }

}  // namespace kilter
