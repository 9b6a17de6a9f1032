// Removes nodes that do nothing and merges movement operators.
#include <algorithm>
#include <optional>

#include "passes/rewrite.h"

namespace kilter {
namespace {

class Simplifier : public RewritePass<Simplifier> {
 public:
  using RewritePass::RewritePass;

  static std::string_view pass() { return "simplify"; }
  static std::span<const RewriteRow<Simplifier>> rows();
  /// Whether the node has no further outputs: a row replaces only the first one.
  bool looks_at(const Node& node) const {
    return std::all_of(node.outputs.begin() + 1, node.outputs.end(), [](ValueId v) { return v == kNone; });
  }

  void run() {
    constexpr int kMostSweeps = 32;  // each goes through whole chains: only contrived graphs need more
    bool changed = true;
    for (int i = 0; changed && i < kMostSweeps; ++i) {
      changed = sweep(false);
      finish();
    }
  }

 private:
  const Node* producer(ValueId v) const {
    const NodeId id = graph_.value(v).producer;
    return id == kNone ? nullptr : &graph_.node(id);
  }

  bool is_scalar(ValueId v, double value) const {
    const Tensor* c = constant_of(graph_, v);
    return c != nullptr && c->elems() == 1 && c->dtype() != DType::string && c->as_double(0) == value;
  }

  /// Returns `x` to replace a node that does nothing, if it has the type of the node's output. A network output keeps
  /// its own node if the source is an input or another output.
  Patch same(const Node& node, ValueId x) {
    if (x == kNone || type(x) != type(node.outputs[0])) return no("it changes the type or shape");
    const bool keeps = graph_.is_output(node.outputs[0]) && (graph_.value(x).producer == kNone || graph_.is_output(x));
    return keeps ? no("its output and its source are both inputs or outputs of the network") : x;
  }
  Patch nothing(const Node& node) { return same(node, node.input(0)); }

  Patch view_as_it_is(const Node& node) { return node.op->family == Family::reshape ? nothing(node) : Patch(); }
  Patch whole_slice(const Node& node) { return reverses(node) ? no("it may reverse an axis") : nothing(node); }
  Patch concat_of_one(const Node& node) {
    return node.inputs.size() == 1 ? nothing(node) : no("it has several inputs");
  }
  Patch transpose_in_order(const Node& node) {
    return keeps_order(node) ? nothing(node) : no("it changes the order of axes");
  }

  /// The other operand of a commutative operation that has the neutral element as one operand.
  Patch beside_neutral(const Node& node, double neutral) {
    if (is_scalar(node.inputs[1], neutral)) {
      if (const auto x = same(node, node.inputs[0])) return x;
    }
    return is_scalar(node.inputs[0], neutral) ? same(node, node.inputs[1]) : no("no operand is the neutral element");
  }
  Patch times_one(const Node& node) { return beside_neutral(node, 1); }
  Patch plus_zero(const Node& node) { return beside_neutral(node, 0); }
  Patch by_one(const Node& node) { return is_scalar(node.inputs[1], 1) ? nothing(node) : no("the divisor is not 1"); }
  Patch minus_zero(const Node& node) {
    return is_scalar(node.inputs[1], 0) ? nothing(node) : no("the subtrahend is not 0");
  }

  /// Whether a Slice may reverse an axis, although it covers the whole axis.
  bool reverses(const Node& node) const {
    if (node.input(4) == kNone) return false;
    const Tensor* steps = constant_of(graph_, node.input(4));
    if (steps == nullptr) return true;
    const std::vector<int64_t> all = steps->ints();
    return std::any_of(all.begin(), all.end(), [](int64_t step) { return step < 0; });
  }

  bool keeps_order(const Node& node) const {
    const auto perm = node.ints_attr("perm");
    if (perm.empty()) return type(node.outputs[0]).shape.size() <= 1;
    return std::is_sorted(perm.begin(), perm.end());
  }

  Patch reshape_of_reshape(const Node& node) {
    if (node.op->family != Family::reshape) return {};
    const Node* before = producer(node.inputs[0]);
    if (before == nullptr || before->op->family != Family::reshape) return no("its input is not another view");
    if (type(node.outputs[0]).dtype == DType::string) return no("its elements are strings");
    const Shape& shape = type(node.outputs[0]).shape;
    return b_.add("Reshape", {before->inputs[0], b_.list(shape)}, {{"allowzero", int64_t{1}}}, node.name);
  }

  std::vector<int64_t> perm_of(const Node& node) const {
    auto perm = node.ints_attr("perm");
    if (perm.empty()) {
      for (auto d = static_cast<int64_t>(type(node.inputs[0]).shape.size()); d-- > 0;) perm.push_back(d);
    }
    return perm;
  }

  Patch transpose_of_transpose(const Node& node) {
    const Node* before = producer(node.inputs[0]);
    if (before == nullptr || before->op->movement != Movement::transpose) return no("its input is not a Transpose");
    const auto outer = perm_of(node), inner = perm_of(*before);
    std::vector<int64_t> both;
    for (int64_t d : outer) both.push_back(inner[static_cast<size_t>(d)]);
    return b_.add("Transpose", {before->inputs[0]}, {{"perm", both}}, node.name);
  }

  /// Whether the outputs of a Split cover its whole input.
  bool makes_all(const Node& split, int64_t axis) const {
    const auto at = static_cast<size_t>(axis);
    int64_t made = 0;
    for (const ValueId part : split.outputs) made += part == kNone ? 0 : type(part).shape[at];
    return made == type(split.inputs[0]).shape[at];
  }

  /// Replaces a concatenation of all parts of a Split, in order and along the same axis, by the Split's input.
  Patch concat_of_parts(const Node& node) {
    const auto rank = static_cast<int64_t>(type(node.outputs[0]).shape.size());
    const int64_t axis = normal_axis(node, node.int_attr("axis", 1), rank);
    std::vector<ValueId> joined;
    for (size_t i = 0; i < node.inputs.size();) {
      const Node* split = producer(node.inputs[i]);
      const bool along = split != nullptr && split->op->movement == Movement::split &&
                         normal_axis(*split, split->int_attr("axis", 0), rank) == axis;
      const size_t count = along ? split->outputs.size() : 0;
      const bool whole =
          along && makes_all(*split, axis) && i + count <= node.inputs.size() &&
          std::equal(split->outputs.begin(), split->outputs.end(), node.inputs.begin() + static_cast<int64_t>(i));
      joined.push_back(whole ? split->inputs[0] : node.inputs[i]);
      i += whole ? count : 1;
    }
    if (joined.size() == node.inputs.size()) return no("its inputs are not all parts of one Split along its axis");
    return b_.add("Concat", joined, {{"axis", axis}}, node.name);
  }

  /// The list of indices that a node repeats along all axes but one (Expand and others do), so that each of them stands
  /// for a whole slice of the data; otherwise the reason why there is none.
  Patch slice_indices(const Node& node, size_t axis) const {
    const Shape &all = type(node.inputs[1]).shape, &data = type(node.inputs[0]).shape;
    for (size_t d = 0; d < all.size(); ++d) {
      if (d != axis && all[d] != data[d]) return no("it does not use whole slices of the data");
    }
    const Node* repeat = producer(node.inputs[1]);
    if (repeat == nullptr || !repeat->op->regions) return no("nothing repeats its indices");
    const auto regions = repeat->op->regions(view(graph_, *repeat), 0);
    if (!regions || regions->size() != 1 || regions->front().input != 0 || regions->front().in_offset != 0)
      return no("nothing repeats its indices");
    const CopyRegion& r = regions->front();
    const int64_t step = dense_strides(all)[axis];
    for (size_t d = 0; d < r.extent.size(); ++d) {
      if (r.in_strides[d] == 0) continue;
      if (r.in_strides[d] != 1 || r.out_strides[d] != step || r.extent[d] != all[axis])
        return no("its indices vary along other axes");
    }
    const ValueId list = repeat->inputs[0];
    return elems(type(list).shape) == all[axis] ? Patch(list) : no("its indices vary along other axes");
  }

  Patch scatter_of_rows(const Node& node) {
    const int64_t axis = normal_axis(node, node.int_attr("axis", 0), std::ssize(type(node.inputs[0]).shape));
    if (axis != 0) return no("its axis is not the first one");
    const Patch few = slice_indices(node, 0);
    if (!few) return few;
    const Shape shape{type(node.inputs[1]).shape[0], 1};
    const ValueId rows = b_.add("Reshape", {*few, b_.list(shape)}, {{"allowzero", int64_t{1}}}, node.name + ".rows");
    return b_.add("ScatterND", {node.inputs[0], rows, node.inputs[2]},
                  {{"reduction", node.string_attr("reduction", "none")}}, node.name);
  }

  Patch gather_of_slices(const Node& node) {
    const int64_t axis = normal_axis(node, node.int_attr("axis", 0), std::ssize(type(node.inputs[0]).shape));
    const Patch few = slice_indices(node, static_cast<size_t>(axis));
    if (!few) return few;
    const Shape shape{type(node.inputs[1]).shape[static_cast<size_t>(axis)]};
    const ValueId list = b_.add("Reshape", {*few, b_.list(shape)}, {{"allowzero", int64_t{1}}}, node.name + ".slices");
    return b_.add("Gather", {node.inputs[0], list}, {{"axis", axis}}, node.name);
  }

  Patch power(const Node& node) {
    const ValueId x = node.inputs[0];
    if (!is_scalar(node.inputs[1], 2)) return no("the exponent is not 2");
    if (type(x) != type(node.outputs[0]) || !is_float(type(x).dtype))
      return no("its input and its result are not floats of the same shape");
    return b_.add("Mul", {x, x}, {}, node.name);
  }
};

std::span<const RewriteRow<Simplifier>> Simplifier::rows() {
  static const std::vector<RewriteRow<Simplifier>> kRows = {
      {{"view", "Identity(x) => x; Reshape, Squeeze and other views that change no shape likewise"},
       &Simplifier::view_as_it_is},
      {{"same_type",
        "Cast(x) => x, if nothing changes; CastLike, Expand, Tile, Dropout likewise",
        {"Cast", "CastLike", "Expand", "Tile", "Dropout"}},
       &Simplifier::nothing},
      {{"whole_slice", "Slice(x; all of it) => x", {"Slice"}}, &Simplifier::whole_slice},
      {{"concat_of_one", "Concat(x) => x", {"Concat"}}, &Simplifier::concat_of_one},
      {{"transpose_in_order", "Transpose(x; axes in order) => x", {"Transpose"}}, &Simplifier::transpose_in_order},
      {{"times_one", "Mul(x, 1) => x", {"Mul"}}, &Simplifier::times_one},
      {{"plus_zero", "Add(x, 0) => x", {"Add"}}, &Simplifier::plus_zero},
      {{"by_one", "Div(x, 1) => x", {"Div"}}, &Simplifier::by_one},
      {{"minus_zero", "Sub(x, 0) => x", {"Sub"}}, &Simplifier::minus_zero},
      {{"reshape_of_reshape", "Reshape(Reshape(x)) => Reshape(x); other views likewise"},
       &Simplifier::reshape_of_reshape},
      {{"transpose_of_transpose", "Transpose(Transpose(x)) => Transpose(x)", {"Transpose"}},
       &Simplifier::transpose_of_transpose},
      {{"square", "Pow(x, 2) => Mul(x, x)", {"Pow"}}, &Simplifier::power},
      {{"concat_of_split", "Concat(a, Split(x), b) => Concat(a, x, b), along one axis", {"Concat"}},
       &Simplifier::concat_of_parts},
      {{"scatter_of_rows",
        "ScatterElements(x, i repeated along rows, u; axis 0) => ScatterND(x, i, u)",
        {"ScatterElements"}},
       &Simplifier::scatter_of_rows},
      {{"gather_of_slices",
        "GatherElements(x, i repeated along slices; axis) => Gather(x, i; axis)",
        {"GatherElements"}},
       &Simplifier::gather_of_slices},
  };
  return kRows;
}

}  // namespace

std::vector<Rewrite> simplify_rewrites() { return Simplifier::rewrites(); }
void simplify(Graph& graph, PassContext& context) { Simplifier(graph, context).run(); }

}  // namespace kilter
