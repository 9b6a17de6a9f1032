// Finds operators that exporters write in pieces, so that one kernel computes them in one pass over the data.

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>

#include "ops/support/reduction.h"
#include "passes/match.h"
#include "passes/rewrite.h"

namespace kilter {
namespace {

constexpr int kAfterLayerNorms = 1;  ///< the sweep for patterns that also occur inside LayerNormalization's pattern

// Reasons of more than one rewrite.
constexpr std::string_view kBroadcasts = "x does not have the type and shape of the result",
                           kNotAlongLast = "scale or bias is not an f32 constant along the last axis",
                           kReadElsewhere = "a value inside the pattern is read elsewhere";

class Recogniser : public RewritePass<Recogniser> {
 public:
  using RewritePass::RewritePass;

  static std::string_view pass() { return "recognise_patterns"; }
  static std::span<const RewriteRow<Recogniser>> rows();
  bool looks_at(const Node& node) const { return node.outputs.size() == 1 && f32(node.outputs[0]); }

  void run() {
    sweep(true);
    sweep(true, kAfterLayerNorms);
    finish();
  }

 private:
  const Node* made_by(ValueId v, std::string_view op) const { return kilter::made_by(graph_, v, op); }
  std::optional<double> scalar(ValueId v) const { return scalar_value(graph_, v); }
  bool is(ValueId v, double want) const {
    const auto value = scalar(v);
    return value && std::abs(*value - want) <= 1e-5 * std::max(1.0, std::abs(want));
  }

  /// Whether `v` has the element type and shape of the node's output. A one-element constant with more dimensions than
  /// the other operand is not a scalar: it adds dimensions to the result.
  bool typed_as(ValueId v, const Node& node) const {
    return same_elements(graph_.type(v), graph_.type(node.outputs[0]));
  }

  /// The other operand of a commutative node that has the constant `want` as one operand.
  std::optional<ValueId> beside(const Node* node, double want) const {
    if (node == nullptr) return std::nullopt;
    if (is(node->inputs[1], want)) return node->inputs[0];
    if (is(node->inputs[0], want)) return node->inputs[1];
    return std::nullopt;
  }

  Patch swish(const Node& node) {
    for (size_t i = 0; i < 2; ++i) {
      const Node* sigmoid = made_by(node.inputs[i], "Sigmoid");
      if (sigmoid != nullptr && sigmoid->inputs[0] == node.inputs[1 - i])
        return b_.add("Swish", {node.inputs[1 - i]}, {}, node.name);
    }
    return no("no operand is the Sigmoid of the other");
  }

  /// x if `v` is clip(x + 3, 0, 6).
  std::optional<ValueId> clipped(ValueId v) const {
    const Node* clip = made_by(v, "Clip");
    if (clip == nullptr) return std::nullopt;
    const bool bounds = clip->opset >= 11 ? is(clip->input(1), 0) && is(clip->input(2), 6)
                                          : clip->float_attr("min", -1) == 0 && clip->float_attr("max", -1) == 6;
    return bounds ? beside(made_by(clip->inputs[0], "Add"), 3) : std::nullopt;
  }

  Patch hard_swish_over_six(const Node& node) {
    const Node* product = is(node.inputs[1], 6) ? made_by(node.inputs[0], "Mul") : nullptr;
    for (size_t i = 0; product != nullptr && i < 2; ++i) {
      const ValueId x = product->inputs[1 - i];
      if (clipped(product->inputs[i]) != x) continue;
      return typed_as(x, node) ? Patch(b_.add("HardSwish", {x}, {}, node.name)) : no(kBroadcasts);
    }
    return no("its dividend is not x * Clip(x + 3, 0, 6), or its divisor is not 6");
  }

  Patch hard_swish(const Node& node) {
    for (size_t i = 0; i < 2; ++i) {
      const ValueId x = node.inputs[1 - i];
      const Node* hard = made_by(node.inputs[i], "HardSigmoid");
      const bool sixth = hard != nullptr && hard->inputs[0] == x &&
                         std::abs(hard->float_attr("alpha", 0.2F) - 1.0F / 6) < 1e-6F &&
                         hard->float_attr("beta", 0.5F) == 0.5F;
      const Node* divided = made_by(node.inputs[i], "Div");
      const bool clip = divided != nullptr && is(divided->inputs[1], 6) && clipped(divided->inputs[0]) == x;
      if (!sixth && !clip) continue;
      return typed_as(x, node) ? Patch(b_.add("HardSwish", {x}, {}, node.name)) : no(kBroadcasts);
    }
    return no("no operand is Clip(x + 3, 0, 6) / 6 or a HardSigmoid of 1/6 and 1/2 of the other operand");
  }

  /// x if `v` is 1 + erf(x / sqrt 2).
  std::optional<ValueId> erf_term(ValueId v) const {
    const auto erf_value = beside(made_by(v, "Add"), 1);
    const Node* erf = erf_value ? made_by(*erf_value, "Erf") : nullptr;
    if (erf == nullptr) return std::nullopt;
    const Node* divided = made_by(erf->inputs[0], "Div");
    if (divided != nullptr && is(divided->inputs[1], std::numbers::sqrt2)) return divided->inputs[0];
    return beside(made_by(erf->inputs[0], "Mul"), 1 / std::numbers::sqrt2);
  }

  Patch gelu(const Node& node) {
    std::optional<ValueId> x;
    if (const auto product = beside(&node, 0.5)) {  // (x * term) * 0.5
      const Node* mul = made_by(*product, "Mul");
      for (size_t i = 0; mul != nullptr && i < 2; ++i) {
        if (erf_term(mul->inputs[i]) == mul->inputs[1 - i]) x = mul->inputs[1 - i];
      }
    }
    for (size_t i = 0; i < 2 && !x; ++i) {
      const auto half_x = beside(made_by(node.inputs[1 - i], "Mul"), 0.5);  // (x * 0.5) * term
      if (half_x && erf_term(node.inputs[i]) == *half_x) x = *half_x;
      const auto half_term = beside(made_by(node.inputs[i], "Mul"), 0.5);  // x * (term * 0.5)
      if (half_term && erf_term(*half_term) == node.inputs[1 - i]) x = node.inputs[1 - i];
    }
    if (!x) return no("it is not a product of x, 0.5 and 1 + Erf(x / sqrt 2)");
    if (!typed_as(*x, node)) return no(kBroadcasts);
    return b_.add("Gelu", {*x}, {}, node.name);
  }

  /// x if `v` is the mean of x over its last axis, with that axis kept.
  std::optional<ValueId> last_mean(ValueId v) const {
    const Node* mean = made_by(v, "ReduceMean");
    if (mean == nullptr || mean->int_attr("keepdims", 1) == 0) return std::nullopt;
    const auto rank = static_cast<int64_t>(graph_.type(mean->inputs[0]).shape.size());
    if (reduced_axes(view(graph_, *mean)) != std::vector<int64_t>{rank - 1}) return std::nullopt;
    return mean->inputs[0];
  }

  /// sqrt(mean(x * x) + epsilon), with the mean over the last axis.
  struct RootMeanSquare {
    ValueId x = kNone;
    float epsilon = 0;
    std::vector<ValueId> between;  ///< x * x, its mean, the sum
  };
  std::optional<RootMeanSquare> root_mean_square(ValueId v) const {
    const Node* root = made_by(v, "Sqrt");
    const Node* shifted = root == nullptr ? nullptr : made_by(root->inputs[0], "Add");
    if (shifted == nullptr) return std::nullopt;
    const size_t side = scalar(shifted->inputs[1]) ? 1 : 0;
    const ValueId mean = shifted->inputs[1 - side];
    const auto e = scalar(shifted->inputs[side]);
    const auto square = last_mean(mean);
    if (!e || !square) return std::nullopt;
    const Node* mul = made_by(*square, "Mul");
    const Node* power = made_by(*square, "Pow");
    const bool squared =
        (mul != nullptr && mul->inputs[0] == mul->inputs[1]) || (power != nullptr && is(power->inputs[1], 2));
    if (!squared) return std::nullopt;
    const ValueId x = mul != nullptr ? mul->inputs[0] : power->inputs[0];
    return RootMeanSquare{x, static_cast<float>(*e), {*square, mean, root->inputs[0]}};
  }

  /// x if `v` is x - mean(x) over the last axis.
  std::optional<ValueId> uncentred(ValueId v) const {
    const Node* centred = made_by(v, "Sub");
    if (centred == nullptr || last_mean(centred->inputs[1]) != centred->inputs[0]) return std::nullopt;
    return centred->inputs[0];
  }

  /// Whether `v` is d / sqrt(mean(d * d) + e) for d = x - mean(x). Fills x and epsilon.
  bool normalised(ValueId v, ValueId* x, float* epsilon) const {
    const Node* divided = made_by(v, "Div");
    if (divided == nullptr) return false;
    const auto from = uncentred(divided->inputs[0]);
    const auto root = root_mean_square(divided->inputs[1]);
    if (!from || !root || root->x != divided->inputs[0]) return false;
    *x = *from;
    *epsilon = root->epsilon;
    return true;
  }

  bool along_last(ValueId v, int64_t extent) const {
    const Tensor* c = f32_constant(v);
    return c != nullptr && c->elems() == extent && !c->shape().empty() && c->shape().back() == extent;
  }
  /// A constant along the last axis, as f32[extent].
  ValueId flat(ValueId v) {
    const Tensor& t = *constant_of(graph_, v);
    return t.shape().size() == 1 ? v : b_.constant(t.reshaped({t.elems()}), graph_.value(v).name);
  }

  Patch layer_norm(const Node& node) {
    for (size_t i = 0; i < 2; ++i) {
      const Node* scaled = made_by(node.inputs[i], "Mul");
      for (size_t j = 0; scaled != nullptr && j < 2; ++j) {
        ValueId x = kNone;
        float epsilon = 0;
        if (!normalised(scaled->inputs[j], &x, &epsilon)) continue;
        const int64_t extent = graph_.type(x).shape.back();
        const ValueId scale = scaled->inputs[1 - j], bias = node.inputs[1 - i];
        if (!typed_as(x, node)) return no(kBroadcasts);
        if (!along_last(scale, extent) || !along_last(bias, extent)) return no(kNotAlongLast);
        return b_.add("LayerNormalization", {x, flat(scale), flat(bias)}, {{"axis", int64_t{-1}}, {"epsilon", epsilon}},
                      node.name);
      }
    }
    return no("no operand is a scaled d / sqrt(mean(d * d) + e) of d = x - mean(x) over the last axis");
  }

  /// x / sqrt(...) as one product or quotient: the dividend and the root.
  struct Quotient {
    ValueId over = kNone;
    RootMeanSquare root;
  };
  /// The node as a quotient by a root mean square, if nothing else reads the root or the values between.
  std::optional<Quotient> over_root_mean_square(const Node& node) const {
    const auto quotient = [&](ValueId over, ValueId root, std::vector<ValueId> more) -> std::optional<Quotient> {
      auto found = root_mean_square(root);
      if (!found) return std::nullopt;
      more.push_back(root);
      more.insert(more.end(), found->between.begin(), found->between.end());
      const auto alone = [&](ValueId v) { return read_once(graph_, v); };
      if (!std::all_of(more.begin(), more.end(), alone)) return std::nullopt;
      return Quotient{over, std::move(*found)};
    };
    if (is_op(node, "Div")) return quotient(node.inputs[0], node.inputs[1], {});
    if (!is_op(node, "Mul")) return std::nullopt;
    for (size_t i = 0; i < 2; ++i) {
      const Node* inverse = made_by(node.inputs[i], "Reciprocal");
      const Node* divided = made_by(node.inputs[i], "Div");
      const ValueId root = inverse != nullptr                                ? inverse->inputs[0]
                           : divided != nullptr && is(divided->inputs[0], 1) ? divided->inputs[1]
                                                                             : kNone;
      if (auto found = quotient(node.inputs[1 - i], root, {node.inputs[i]})) return found;
    }
    return std::nullopt;
  }

  Patch rms_norm(const Node& node) {
    const auto norm = [&](const Quotient& q, ValueId scale) -> Patch {
      if (!typed_as(q.root.x, node)) return no(kBroadcasts);
      if (!along_last(scale, graph_.type(q.root.x).shape.back())) return no(kNotAlongLast);
      const Attrs attrs{{"axis", int64_t{-1}}, {"epsilon", q.root.epsilon}};
      if (const auto x = uncentred(q.root.x)) return b_.add("LayerNormalization", {*x, flat(scale)}, attrs, node.name);
      return b_.add("RMSNormalization", {q.root.x, flat(scale)}, attrs, node.name);
    };
    const auto whole = over_root_mean_square(node);  // (x * s) / root
    const Node* scaled = whole ? made_by(whole->over, "Mul") : nullptr;
    if (scaled != nullptr && read_once(graph_, whole->over)) {
      for (size_t i = 0; i < 2; ++i) {
        if (scaled->inputs[i] == whole->root.x) return norm(*whole, scaled->inputs[1 - i]);
      }
    }
    if (!is_op(node, "Mul")) return no("it is not a scaled x over a root of mean(x * x) + e that nothing else reads");
    for (size_t i = 0; i < 2; ++i) {  // (x / root) * s
      const NodeId made = graph_.value(node.inputs[i]).producer;
      if (made == kNone || !read_once(graph_, node.inputs[i])) continue;
      const auto inner = over_root_mean_square(graph_.node(made));
      if (inner && inner->over == inner->root.x) return norm(*inner, node.inputs[1 - i]);
    }
    return no("no operand is x over a root of mean(x * x) + e that nothing else reads");
  }

  const Tensor* f32_constant(ValueId v) const {
    const Tensor* c = constant_of(graph_, v);
    return c != nullptr && c->dtype() == DType::f32 ? c : nullptr;
  }

  /// A constant f32[channels] with value(channel) for each channel.
  template <class Value>
  ValueId by_channel(int64_t channels, const std::string& name, Value value) {
    Tensor t(DType::f32, {channels});
    for (int64_t c = 0; c < channels; ++c) t.data<float>()[c] = static_cast<float>(value(c));
    return b_.constant(t, name);
  }

  Patch group_norm(const Node& node) {
    const Node* norm = made_by(node.inputs[0], "InstanceNormalization");
    const Node* split = norm == nullptr ? nullptr : made_by(norm->inputs[0], "Reshape");
    if (split == nullptr) return no("its input is not InstanceNormalization(Reshape(x))");
    if (!read_once(graph_, node.inputs[0])) return no(kReadElsewhere);
    const ValueId x = split->inputs[0];
    const Shape &shape = graph_.type(x).shape, &rows = graph_.type(norm->inputs[0]).shape;
    if (shape.size() < 3 || graph_.type(node.outputs[0]).shape != shape || rows[0] != shape[0] || rows[1] == 0 ||
        shape[1] % rows[1] != 0) {
      return no("the reshapes do not split the channels into groups and join them again");
    }
    const Tensor *scale = f32_constant(norm->inputs[1]), *bias = f32_constant(norm->inputs[2]);
    if (scale == nullptr || bias == nullptr) return no("scale and bias are not f32 constants");
    const int64_t each = shape[1] / rows[1];
    const auto spread = [&](const Tensor& t, const char* what) {
      return by_channel(shape[1], node.name + what, [&](int64_t c) { return t.as_double(c / each); });
    };
    return b_.add("GroupNormalization", {x, spread(*scale, ".scale"), spread(*bias, ".bias")},
                  {{"epsilon", norm->float_attr("epsilon", 1e-5F)}, {"num_groups", rows[1]}}, node.name);
  }

  /// Recognises a channel shuffle: a transposition of the groups and the places within a group.
  Patch channel_shuffle(const Node& node) {
    const Node* swap = made_by(node.inputs[0], "Transpose");
    const Node* split = swap == nullptr ? nullptr : made_by(swap->inputs[0], "Reshape");
    if (split == nullptr) return no("its input is not Transpose(Reshape(x))");
    if (swap->ints_attr("perm") != std::vector<int64_t>{0, 2, 1, 3, 4})
      return no("the Transpose does not swap axes 1 and 2 of 5");
    const ValueId x = split->inputs[0];
    const Shape &shape = graph_.type(x).shape, &groups = graph_.type(split->outputs[0]).shape;
    if (shape.size() != 4 || graph_.type(node.outputs[0]).shape != shape || elems(shape) == 0)
      return no("x and the result are not images of the same shape");
    const Shape wanted{shape[0], groups[1], groups[2], shape[2], shape[3]};
    if (groups != wanted) return no("the first Reshape does not split the channels into two axes");
    if (!read_once(graph_, node.inputs[0]) || !read_once(graph_, swap->inputs[0])) return no(kReadElsewhere);
    Tensor order(DType::i64, {shape[1]});
    for (int64_t c = 0; c < shape[1]; ++c) order.data<int64_t>()[c] = c % groups[1] * groups[2] + c / groups[1];
    return b_.add("Gather", {x, b_.constant(order, node.name + ".order")}, {{"axis", int64_t{1}}}, node.name);
  }

  /// The factor or summand of each channel, for values of `shape`. A single element stands for all channels.
  const Tensor* per_channel(ValueId v, const Shape& shape) const {
    const Tensor* t = f32_constant(v);
    if (t == nullptr || t->elems() == 1) return t;
    const size_t rank = t->shape().size();
    if (rank + 1 < shape.size() || rank > shape.size()) return nullptr;
    const size_t channel = rank + 1 - shape.size();
    return t->shape()[channel] == shape[1] && t->elems() == shape[1] ? t : nullptr;
  }

  Patch scaled_group_norm(const Node& node) {
    const bool scales = node.op->combiner == Combiner::product;
    std::string_view why = "no operand is a GroupNormalization with a scale for each channel that only this node reads";
    for (size_t i = 0; i < 2; ++i) {
      const Node* norm = made_by(node.inputs[i], "GroupNormalization");
      if (norm == nullptr || norm->opset < 21 || !read_once(graph_, node.inputs[i])) continue;
      const Shape& shape = graph_.type(node.inputs[i]).shape;
      const Tensor* by = per_channel(node.inputs[1 - i], shape);
      const Tensor *scale = f32_constant(norm->inputs[1]), *bias = f32_constant(norm->inputs[2]);
      if (by == nullptr || scale == nullptr || bias == nullptr || !typed_as(node.inputs[i], node)) {
        why = "scale, bias or the other operand are not f32 constants for each channel";
        continue;
      }
      const auto of = [&](int64_t c) { return by->as_double(by->elems() == 1 ? 0 : c); };
      const ValueId scaled =
          scales ? by_channel(shape[1], norm->name + ".scale", [&](int64_t c) { return scale->as_double(c) * of(c); })
                 : norm->inputs[1];
      const ValueId shifted = by_channel(shape[1], norm->name + ".bias", [&](int64_t c) {
        return scales ? bias->as_double(c) * of(c) : bias->as_double(c) + of(c);
      });
      return b_.add("GroupNormalization", {norm->inputs[0], scaled, shifted}, norm->attrs, node.name);
    }
    return no(why);
  }
};

std::span<const RewriteRow<Recogniser>> Recogniser::rows() {
  static const std::vector<RewriteRow<Recogniser>> kRows = {
      {{"swish", "Mul(x, Sigmoid(x)) => Swish(x)", {"Mul"}}, &Recogniser::swish},
      {{"hard_swish", "Mul(x, Clip(x + 3, 0, 6) / 6) => HardSwish(x); Mul(x, HardSigmoid(x)) likewise", {"Mul"}},
       &Recogniser::hard_swish},
      {{"hard_swish_over_six", "Div(Mul(x, Clip(x + 3, 0, 6)), 6) => HardSwish(x)", {"Div"}},
       &Recogniser::hard_swish_over_six},
      {{"gelu", "x * 0.5 * (1 + Erf(x / sqrt 2)), in any order => Gelu(x)", {"Mul"}}, &Recogniser::gelu},
      {{"layer_norm", "d / sqrt(mean(d * d) + e) * s + b, d = x - mean(x) => LayerNormalization(x, s, b)", {"Add"}},
       &Recogniser::layer_norm},
      {{"group_norm", "Reshape(InstanceNormalization(Reshape(x, [n,g,...]))) => GroupNormalization(x; g)", {"Reshape"}},
       &Recogniser::group_norm},
      {{"group_norm_scale",
        "GroupNormalization(x, s, b) * t + u, t and u by channel => GroupNormalization(x, s t, b t + u)",
        {"Mul", "Add"}},
       &Recogniser::scaled_group_norm},
      {{"channel_shuffle",
        "Reshape(Transpose(Reshape(x, [n,g,c/g,h,w]))) => Gather(x, order of channels)",
        {"Reshape"}},
       &Recogniser::channel_shuffle},
      {{"rms_norm",
        "x / sqrt(mean(x * x) + e) * s => RMSNormalization(x, s); of x - mean(x) => LayerNormalization(x, s)",
        {"Mul", "Div"}},
       &Recogniser::rms_norm,
       kAfterLayerNorms},
  };
  return kRows;
}

}  // namespace

std::vector<Rewrite> pattern_rewrites() { return Recogniser::rewrites(); }
void recognise_patterns(Graph& graph, PassContext& context) { Recogniser(graph, context).run(); }

}  // namespace kilter
