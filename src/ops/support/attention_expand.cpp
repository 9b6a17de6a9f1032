#include <algorithm>
#include <array>
#include <limits>

#include "ops/support/attention.h"
#include "ops/support/expander.h"
#include "ops/support/onnx_dtype.h"

namespace kilter {
namespace {

class Expansion : Expander {
 public:
  explicit Expansion(ExpandContext& ctx)
      : Expander(ctx),
        s_(attention_shape(ctx.node, ctx.type(0).shape, ctx.type(1).shape, ctx.type(2).shape, shape_at(4),
                           shape_at(5))),
        rules_(attention_rules(ctx.node, s_.size)),
        type_(ctx.type(0).dtype == DType::f64 ? DType::f64 : DType::f32) {}

  std::vector<ValueId> run() {
    const ValueId q = heads_first(cast(in(0), type_), s_.q_heads, s_.queries, s_.size);
    const ValueId k = with_past(heads_first(in(1), s_.kv_heads, s_.fresh, s_.size), 4);
    const ValueId v = with_past(heads_first(in(2), s_.kv_heads, s_.fresh, s_.v_size), 5);
    make_bias();
    group_heads();
    const ValueId scaled = add("Mul", {q, scalar(type_, rules_.scale)});
    const ValueId turned = transposed(cast(k, type_), {0, 1, 3, 2});
    const ValueId raw = add("MatMul", {reshaped(scaled, grouped(s_.size)), of_group(turned)});
    const ValueId capped = cap(raw);
    const ValueId biased = bias_ == kNone ? capped : add("Add", {capped, bias_});
    const ValueId weights = softmax(biased);
    const ValueId mixed = add("MatMul", {weights, of_group(cast(v, type_))});
    ValueId y = reshaped(mixed, {s_.batch, s_.q_heads, s_.queries, s_.v_size});
    if (s_.rank3) y = reshaped(exchanged(y), s_.output());
    const ValueId shown = std::array{raw, capped, biased, weights}.at(static_cast<size_t>(rules_.output_mode));
    const DType outer = dtype(in(0));
    return {cast(y, outer), k, v, cast(reshaped(shown, s_.scores()), outer)};
  }

 private:
  const Shape* shape_at(size_t i) const { return has(i) ? &ctx_.type(i).shape : nullptr; }

  ValueId heads_first(ValueId x, int64_t heads, int64_t positions, int64_t size) {
    return s_.rank3 ? exchanged(reshaped(x, {s_.batch, positions, heads, size})) : x;
  }
  ValueId with_past(ValueId fresh, size_t past) {
    return has(past) ? joined({cast(in(past), dtype(fresh)), fresh}, 2) : fresh;
  }

  /// Chooses how query heads that share a key head become matrices, and gives bias_ that form. One matrix of all their
  /// queries is the cheapest, but needs a bias that is the same for all of them.
  void group_heads() {
    heads_ = {s_.batch, s_.q_heads}, rows_ = s_.queries;
    const int64_t group = s_.q_heads / s_.kv_heads;
    if (group == 1) return;
    Shape own = bias_ == kNone ? Shape() : shape(bias_);
    own.insert(own.begin(), own.size() < 4 ? 4 - own.size() : 0, 1);
    const bool per_head = own[1] != 1;
    if (s_.queries == 1 || (!per_head && own[2] == 1)) {
      heads_ = {s_.batch, s_.kv_heads}, rows_ = group * s_.queries;
      if (bias_ != kNone && per_head) bias_ = reshaped(bias_, {own[0], s_.kv_heads, group, own[3]});
      return;
    }
    heads_ = {s_.batch, s_.kv_heads, group};
    bias_ = reshaped(bias_, {own[0], per_head ? s_.kv_heads : 1, per_head ? group : 1, own[2], own[3]});
  }
  Shape grouped(int64_t columns) const {
    Shape whole = heads_;
    whole.insert(whole.end(), {rows_, columns});
    return whole;
  }
  /// Returns keys or values [batch, kv_heads, ...] with an axis for the query heads of a group if these are separate.
  ValueId of_group(ValueId x) {
    const Shape own = shape(x);
    return heads_.size() == 2 ? x : reshaped(x, {own[0], own[1], 1, own[2], own[3]});
  }

  ValueId cap(ValueId scores) {
    if (!(rules_.softcap > 0)) return scores;
    const ValueId limit = scalar(type_, rules_.softcap);
    return add("Mul", {add("Tanh", {add("Div", {scores, limit})}), limit});
  }

  ValueId both(ValueId a, ValueId b) { return a == kNone ? b : b == kNone ? a : add("And", {a, b}); }

  /// Returns a boolean that broadcasts to the scores and says which keys the positions allow, or kNone if all are
  /// allowed.
  ValueId allowed_by_position() {
    const bool nonpad = has(6);
    const bool all_left = !rules_.bounded_left || s_.past + s_.queries - 1 <= rules_.left;
    const bool all_right = !rules_.bounded_right || s_.past + rules_.right >= s_.keys() - 1;
    if (!nonpad && all_left && all_right) return kNone;
    const ValueId keys = counting(DType::i32, 0, {s_.keys()});
    ValueId valid = kNone;
    ValueId allowed = kNone;
    if (nonpad) {
      valid = reshaped(cast(in(6), DType::i32), {s_.batch, 1, 1, 1});
      allowed = add("Less", {keys, valid});
    }
    const bool per_batch = nonpad && !has(4);
    ValueId at = counting(DType::i32, per_batch ? -s_.queries : s_.past, {s_.queries, 1});
    if (per_batch && (rules_.bounded_left || rules_.bounded_right)) at = add("Add", {at, valid});
    const auto bound = [&](int64_t by) {
      return by == 0 ? at : add("Add", {at, scalar(DType::i32, static_cast<double>(by))});
    };
    if (rules_.bounded_right) allowed = both(allowed, add("LessOrEqual", {keys, bound(rules_.right)}));
    if (rules_.bounded_left) allowed = both(allowed, add("GreaterOrEqual", {keys, bound(-rules_.left)}));
    return allowed;
  }

  /// Returns the mask operand extended to the number of keys. Added entries are masked out.
  ValueId padded_mask() {
    const ValueId mask = in(3);
    const TensorType& type = ctx_.builder.type(mask);
    if (type.shape.empty() || type.shape.back() >= s_.keys() || type.shape.back() == 1) return mask;
    Shape extent = type.shape;
    extent.back() = s_.keys() - extent.back();
    Tensor filler(type.dtype, {1});
    const ValueId value =
        type.dtype == DType::boolean ? ctx_.builder.constant(std::move(filler)) : scalar(type.dtype, kNever);
    return add("Concat", {mask, add("Expand", {value, list(extent)})}, {{"axis", int64_t{-1}}});
  }

  /// Whether it is known at compile time that every query sees a key, so that no guard against empty rows is needed.
  bool never_empty() const {
    if (has(3) || has(6)) return false;
    for (int64_t i = 0; i < s_.queries; ++i) {
      const int64_t last = rules_.bounded_right ? std::min(s_.keys() - 1, s_.past + i + rules_.right) : s_.keys() - 1;
      const int64_t first = rules_.bounded_left ? std::max<int64_t>(0, s_.past + i - rules_.left) : 0;
      if (first > last) return false;
    }
    return true;
  }

  /// Sets bias_, which is added to the scores (kNone: nothing is added).
  void make_bias() {
    ValueId allowed = allowed_by_position();
    ValueId added = kNone;
    if (has(3)) {
      const ValueId mask = padded_mask();
      if (dtype(mask) == DType::boolean) {
        allowed = both(allowed, mask);
      } else {
        added = cast(mask, type_);
      }
    }
    bias_ = added;
    if (allowed == kNone) return;
    bias_ = add("Where", {allowed, added == kNone ? scalar(type_, 0) : added, scalar(type_, kNever)});
  }

  /// Returns the softmax over the keys. Rows whose bias is -inf everywhere become 0.
  ValueId softmax(ValueId scores) {
    const auto wanted = dtype_of_code(ctx_.node.int_attr("softmax_precision", code_of_dtype(type_)));
    const ValueId weights =
        cast(add("Softmax", {cast(scores, wanted.value_or(type_))}, {{"axis", int64_t{-1}}}), type_);
    if (bias_ == kNone || never_empty()) return weights;
    const ValueId best = add("ReduceMax", {bias_, list({-1})}, {{"keepdims", int64_t{1}}});
    const ValueId empty = add("Equal", {best, scalar(type_, kNever)});
    return add("Where", {empty, scalar(type_, 0), weights});
  }

  static constexpr double kNever = -std::numeric_limits<double>::infinity();

  AttentionShape s_;
  AttentionRules rules_;
  DType type_;  ///< of the arithmetic: f32 for 16-bit operands
  ValueId bias_ = kNone;
  Shape heads_;       ///< the dimensions before the matrices of the products
  int64_t rows_ = 0;  ///< of these matrices, in q
};

}  // namespace

std::vector<ValueId> expand_attention(ExpandContext& ctx) { return Expansion(ctx).run(); }

}  // namespace kilter
