#include <algorithm>
#include <array>
#include <limits>

#include "ops/support/attention.h"
#include "ops/support/onnx_dtype.h"

namespace kilter {
namespace {

/// The steps of the expansion. Every method adds nodes and returns the value that they produce.
class Expansion {
 public:
  explicit Expansion(ExpandContext& ctx)
      : ctx_(ctx),
        s_(attention_shape(ctx.node, ctx.type(0).shape, ctx.type(1).shape, ctx.type(2).shape, shape_at(4),
                           shape_at(5))),
        rules_(attention_rules(ctx.node, s_.size)),
        type_(ctx.type(0).dtype == DType::f64 ? DType::f64 : DType::f32) {}

  std::vector<ValueId> run() {
    const ValueId q = heads_first(cast(ctx_.in(0), type_), s_.q_heads, s_.queries, s_.size);
    const ValueId k = with_past(heads_first(ctx_.in(1), s_.kv_heads, s_.fresh, s_.size), 4);
    const ValueId v = with_past(heads_first(ctx_.in(2), s_.kv_heads, s_.fresh, s_.v_size), 5);
    make_bias();
    group_heads();
    const ValueId scaled = ctx_.add("Mul", {q, ctx_.scalar(type_, rules_.scale)});
    const ValueId turned = transpose(cast(k, type_), {0, 1, 3, 2});
    const ValueId raw = ctx_.add("MatMul", {reshape(scaled, grouped(s_.size)), of_group(turned)});
    const ValueId capped = cap(raw);
    const ValueId biased = bias_ == kNone ? capped : ctx_.add("Add", {capped, bias_});
    const ValueId weights = softmax(biased);
    const ValueId mixed = ctx_.add("MatMul", {weights, of_group(cast(v, type_))});
    ValueId y = reshape(mixed, {s_.batch, s_.q_heads, s_.queries, s_.v_size});
    if (s_.rank3) y = reshape(transpose(y, {0, 2, 1, 3}), s_.output());
    const ValueId shown = std::array{raw, capped, biased, weights}.at(static_cast<size_t>(rules_.output_mode));
    const DType outer = ctx_.type(0).dtype;
    return {cast(y, outer), k, v, cast(reshape(shown, s_.scores()), outer)};
  }

 private:
  const Shape* shape_at(size_t i) const { return ctx_.has(i) ? &ctx_.type(i).shape : nullptr; }

  ValueId ints(const std::vector<int64_t>& values) { return ctx_.builder.list(values); }
  ValueId positions(int64_t count, int64_t first, Shape shape) {
    Tensor tensor(DType::i32, std::move(shape));
    for (int64_t i = 0; i < count; ++i) tensor.data<int32_t>()[i] = static_cast<int32_t>(first + i);
    return ctx_.builder.constant(std::move(tensor));
  }
  ValueId reshape(ValueId x, const Shape& shape) {
    return ctx_.builder.type(x).shape == shape ? x : ctx_.add("Reshape", {x, ints(shape)});
  }
  ValueId transpose(ValueId x, std::vector<int64_t> perm) {
    return ctx_.add("Transpose", {x}, {{"perm", std::move(perm)}});
  }
  ValueId cast(ValueId x, DType type) {
    return ctx_.builder.type(x).dtype == type ? x : ctx_.add("Cast", {x}, {{"to", code_of_dtype(type)}});
  }

  ValueId heads_first(ValueId x, int64_t heads, int64_t positions, int64_t size) {
    return s_.rank3 ? transpose(reshape(x, {s_.batch, positions, heads, size}), {0, 2, 1, 3}) : x;
  }
  ValueId with_past(ValueId fresh, size_t past) {
    if (!ctx_.has(past)) return fresh;
    return ctx_.add("Concat", {cast(ctx_.in(past), ctx_.builder.type(fresh).dtype), fresh}, {{"axis", int64_t{2}}});
  }

  /// Chooses how query heads that share a key head become matrices, and gives bias_ that form. One matrix of all their
  /// queries is the cheapest, but needs a bias that is the same for all of them.
  void group_heads() {
    heads_ = {s_.batch, s_.q_heads}, rows_ = s_.queries;
    const int64_t group = s_.q_heads / s_.kv_heads;
    if (group == 1) return;
    Shape own = bias_ == kNone ? Shape() : ctx_.builder.type(bias_).shape;
    own.insert(own.begin(), own.size() < 4 ? 4 - own.size() : 0, 1);
    const bool per_head = own[1] != 1;
    if (s_.queries == 1 || (!per_head && own[2] == 1)) {
      heads_ = {s_.batch, s_.kv_heads}, rows_ = group * s_.queries;
      if (bias_ != kNone && per_head) bias_ = reshape(bias_, {own[0], s_.kv_heads, group, own[3]});
      return;
    }
    heads_ = {s_.batch, s_.kv_heads, group};
    bias_ = reshape(bias_, {own[0], per_head ? s_.kv_heads : 1, per_head ? group : 1, own[2], own[3]});
  }
  Shape grouped(int64_t columns) const {
    Shape shape = heads_;
    shape.insert(shape.end(), {rows_, columns});
    return shape;
  }
  /// Returns keys or values [batch, kv_heads, ...] with an axis for the query heads of a group if these are apart.
  ValueId of_group(ValueId x) {
    const Shape own = ctx_.builder.type(x).shape;
    return heads_.size() == 2 ? x : reshape(x, {own[0], own[1], 1, own[2], own[3]});
  }

  ValueId cap(ValueId scores) {
    if (!(rules_.softcap > 0)) return scores;
    const ValueId limit = ctx_.scalar(type_, rules_.softcap);
    return ctx_.add("Mul", {ctx_.add("Tanh", {ctx_.add("Div", {scores, limit})}), limit});
  }

  ValueId both(ValueId a, ValueId b) { return a == kNone ? b : b == kNone ? a : ctx_.add("And", {a, b}); }

  /// Returns a boolean that broadcasts to the scores and says which keys the positions allow, or kNone if all are
  /// allowed.
  ValueId allowed_by_position() {
    const bool nonpad = ctx_.has(6);
    const bool all_left = !rules_.bounded_left || s_.past + s_.queries - 1 <= rules_.left;
    const bool all_right = !rules_.bounded_right || s_.past + rules_.right >= s_.keys() - 1;
    if (!nonpad && all_left && all_right) return kNone;
    const ValueId keys = positions(s_.keys(), 0, {s_.keys()});
    ValueId valid = kNone;
    ValueId allowed = kNone;
    if (nonpad) {
      valid = reshape(cast(ctx_.in(6), DType::i32), {s_.batch, 1, 1, 1});
      allowed = ctx_.add("Less", {keys, valid});
    }
    const bool per_batch = nonpad && !ctx_.has(4);
    ValueId at = positions(s_.queries, per_batch ? -s_.queries : s_.past, {s_.queries, 1});
    if (per_batch && (rules_.bounded_left || rules_.bounded_right)) at = ctx_.add("Add", {at, valid});
    const auto bound = [&](int64_t by) {
      return by == 0 ? at : ctx_.add("Add", {at, ctx_.scalar(DType::i32, static_cast<double>(by))});
    };
    if (rules_.bounded_right) allowed = both(allowed, ctx_.add("LessOrEqual", {keys, bound(rules_.right)}));
    if (rules_.bounded_left) allowed = both(allowed, ctx_.add("GreaterOrEqual", {keys, bound(-rules_.left)}));
    return allowed;
  }

  /// Returns the mask operand extended to the number of keys. Added entries are masked out.
  ValueId padded_mask() {
    const ValueId mask = ctx_.in(3);
    const TensorType& type = ctx_.builder.type(mask);
    if (type.shape.empty() || type.shape.back() >= s_.keys() || type.shape.back() == 1) return mask;
    Shape extent = type.shape;
    extent.back() = s_.keys() - extent.back();
    Tensor filler(type.dtype, {1});
    const ValueId value =
        type.dtype == DType::boolean ? ctx_.builder.constant(std::move(filler)) : ctx_.scalar(type.dtype, kNever);
    return ctx_.add("Concat", {mask, ctx_.add("Expand", {value, ints(extent)})}, {{"axis", int64_t{-1}}});
  }

  /// Whether it is known at compile time that every query sees a key, so that no guard against empty rows is needed.
  bool never_empty() const {
    if (ctx_.has(3) || ctx_.has(6)) return false;
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
    if (ctx_.has(3)) {
      const ValueId mask = padded_mask();
      if (ctx_.builder.type(mask).dtype == DType::boolean) {
        allowed = both(allowed, mask);
      } else {
        added = cast(mask, type_);
      }
    }
    bias_ = added;
    if (allowed == kNone) return;
    bias_ = ctx_.add("Where", {allowed, added == kNone ? ctx_.scalar(type_, 0) : added, ctx_.scalar(type_, kNever)});
  }

  /// Returns the softmax over the keys. Rows whose bias is -inf everywhere become 0.
  ValueId softmax(ValueId scores) {
    const auto wanted = dtype_of_code(ctx_.node.int_attr("softmax_precision", code_of_dtype(type_)));
    const ValueId weights =
        cast(ctx_.add("Softmax", {cast(scores, wanted.value_or(type_))}, {{"axis", int64_t{-1}}}), type_);
    if (bias_ == kNone || never_empty()) return weights;
    const ValueId best = ctx_.add("ReduceMax", {bias_, ints({-1})}, {{"keepdims", int64_t{1}}});
    const ValueId empty = ctx_.add("Equal", {best, ctx_.scalar(type_, kNever)});
    return ctx_.add("Where", {empty, ctx_.scalar(type_, 0), weights});
  }

  static constexpr double kNever = -std::numeric_limits<double>::infinity();

  ExpandContext& ctx_;
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
