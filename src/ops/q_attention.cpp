#include "ops/support/elementwise.h"
#include "ops/support/operands.h"

namespace kilter {
namespace {

enum Input : size_t { kX, kW, kBias, kXScale, kWScale, kMask, kXZero, kWZero, kPast };
constexpr size_t kInputs = 9;

class Expansion {
 public:
  explicit Expansion(ExpandContext& ctx) : ctx_(ctx) {}

  std::vector<ValueId> run() {
    check();
    const std::vector<ValueId> parts = projections();
    std::vector<ValueId> inputs = {parts[0], parts[1], parts[2], mask(), kNone, kNone};
    if (ctx_.has(kPast)) inputs[4] = half_of_past(0), inputs[5] = half_of_past(1);
    Attrs attrs = {
        {"q_num_heads", heads_}, {"kv_num_heads", heads_}, {"is_causal", ctx_.node.int_attr("unidirectional", 0)}};
    if (const float scale = ctx_.node.float_attr("scale", 0); scale != 0) attrs["scale"] = scale;
    GraphBuilder::Options options;
    options.name = ctx_.node.name;
    options.output_count = ctx_.has(kPast) ? 3 : 1;
    const std::vector<ValueId> y = ctx_.builder.add("Attention", std::move(inputs), std::move(attrs), options);
    const ValueId keys = ctx_.has(kPast) ? y[1] : per_head(parts[1]);
    const ValueId values = ctx_.has(kPast) ? y[2] : per_head(parts[2]);
    return {y[0], ctx_.add("Concat", {unsqueezed(keys), unsqueezed(values)}, {{"axis", int64_t{0}}})};
  }

 private:
  /// Throws bad_model or unsupported for what the added nodes would not explain.
  void check() {
    for (const size_t i : {kX, kW, kBias, kXScale, kWScale}) {
      if (!ctx_.has(i)) node_error(ctx_.node, fmt::format("input {} is left out but required", i));
    }
    for (const char* key : {"do_rotary", "past_present_share_buffer"}) {
      if (ctx_.node.int_attr(key, 0) == 0) continue;
      fail(ErrorKind::unsupported, "{}: attribute {} is not supported; export the model without it", label(ctx_.node),
           key);
    }
    const Shape& x = ctx_.type(kX).shape;
    const Shape& w = ctx_.type(kW).shape;
    heads_ = ctx_.node.int_attr("num_heads", 0);
    if (x.size() != 3 || w.size() != 2 || heads_ < 1 || w[1] % 3 != 0 || w[1] / 3 % heads_ != 0) {
      node_error(ctx_.node,
                 fmt::format("has input {}, weights {} and num_heads {}; expected [batch, sequence, inputs] and "
                             "[inputs, 3 * num_heads * head_size]",
                             text(x), text(w), heads_));
    }
    batch_ = x[0];
    sequence_ = x[1];
    hidden_ = w[1] / 3;
    if (!ctx_.has(kPast)) return;
    const Shape& past = ctx_.type(kPast).shape;
    const Shape expected = {2, batch_, heads_, past.size() == 5 ? past[3] : 0, hidden_ / heads_};
    if (past != expected) {
      node_error(ctx_.node, fmt::format("past has shape {}, expected [2, {}, {}, past positions, {}]", text(past),
                                        batch_, heads_, hidden_ / heads_));
    }
    past_ = past[3];
  }

  ValueId list(const Shape& values) { return ctx_.builder.list(values); }
  ValueId reshaped(ValueId v, const Shape& shape) { return ctx_.add("Reshape", {v, list(shape)}); }
  ValueId unsqueezed(ValueId v) { return ctx_.add("Unsqueeze", {v, list({0})}); }

  /// Returns q, k and v as [batch, sequence, hidden].
  std::vector<ValueId> projections() {
    GraphBuilder::Options options;
    options.name = ctx_.node.name;
    options.domain = "com.microsoft";
    const auto optional = [&](size_t i) { return ctx_.has(i) ? ctx_.in(i) : kNone; };
    const ValueId all = ctx_.builder
                            .add("MatMulIntegerToFloat",
                                 {ctx_.in(kX), ctx_.in(kW), ctx_.in(kXScale), ctx_.in(kWScale), optional(kXZero),
                                  optional(kWZero), ctx_.in(kBias)},
                                 {}, options)
                            .front();
    options.domain = "";
    options.output_count = 3;
    return ctx_.builder.add("Split", {all, list({hidden_, hidden_, hidden_})}, {{"axis", int64_t{2}}}, options);
  }

  ValueId half_of_past(int64_t which) {
    return ctx_.add("Gather", {ctx_.in(kPast), ctx_.scalar(DType::i64, static_cast<double>(which))});
  }
  ValueId per_head(ValueId v) {
    const ValueId split = reshaped(v, {batch_, sequence_, heads_, hidden_ / heads_});
    return ctx_.add("Transpose", {split}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
  }

  /// Returns what is added to the scores: mask_filter_value where the mask hides a position, else 0. The mask says so
  /// for each position (and query), or gives the end, and then perhaps the start, of the visible positions of a
  /// sequence.
  ValueId mask() {
    if (!ctx_.has(kMask)) return kNone;
    const Shape given = ctx_.type(kMask).shape;
    const int64_t total = past_ + sequence_;
    ValueId visible = kNone;
    if (given == Shape{batch_, total}) {
      visible = ctx_.add("Greater", {reshaped(ctx_.in(kMask), {batch_, 1, 1, total}), ctx_.scalar(DType::i32, 0)});
    } else if (given == Shape{batch_, sequence_, total}) {
      visible =
          ctx_.add("Greater", {reshaped(ctx_.in(kMask), {batch_, 1, sequence_, total}), ctx_.scalar(DType::i32, 0)});
    } else if (given == Shape{batch_} || given == Shape{2 * batch_}) {
      visible = between(given[0] > batch_, total);
    } else {
      node_error(ctx_.node, fmt::format("mask_index has shape {}, expected {} or {} (ends, then starts), {}x{} or "
                                        "{}x{}x{}",
                                        text(given), batch_, 2 * batch_, batch_, total, batch_, sequence_, total));
    }
    const DType type = ctx_.type(kBias).dtype;
    const auto hidden = static_cast<double>(ctx_.node.float_attr("mask_filter_value", -10000.0F));
    return ctx_.add("Where", {visible, ctx_.scalar(type, 0), ctx_.scalar(type, hidden)});
  }

  ValueId between(bool has_starts, int64_t total) {
    Tensor numbers(DType::i32, {total});
    for (int64_t i = 0; i < total; ++i) numbers.data<int32_t>()[i] = static_cast<int32_t>(i);
    const ValueId positions = ctx_.builder.constant(std::move(numbers), ctx_.node.name);
    const auto limits = [&](int64_t from) {
      return reshaped(ctx_.add("Slice", {ctx_.in(kMask), list({from}), list({from + batch_})}), {batch_, 1, 1, 1});
    };
    const ValueId before_end = ctx_.add("Less", {positions, limits(0)});
    if (!has_starts) return before_end;
    return ctx_.add("And", {before_end, ctx_.add("GreaterOrEqual", {positions, limits(batch_)})});
  }

  ExpandContext& ctx_;
  int64_t heads_ = 1;
  int64_t batch_ = 0;
  int64_t sequence_ = 0;
  int64_t hidden_ = 0;
  int64_t past_ = 0;
};

std::vector<ValueId> expand(ExpandContext& ctx) { return Expansion(ctx).run(); }

/// Masks of each form.
constexpr CaseText kEnds =
    "u8[2,3,8] i8[8,24] f32[24] f32[]=0.01 f32[24]=0.02 i32[2]:3,1 u8[]=50 i8[24]=50 | num_heads=4 unidirectional=1 | "
    "| "
    "2";
constexpr CaseText kPastKeys =
    "i8[2,3,8] i8[8,24] f32[24] f32[]=0.01 f32[]=0.02 i32[4]:5,4,0,1 i8[]=50 i8[]=50 f32[2,2,2,2,4] | num_heads=2 "
    "unidirectional=1 | | 2";
constexpr CaseText kRawMask =
    "u8[2,3,8] u8[8,12] f32[12] f32[]=0.01 f32[]=0.02 i32[2,3]:1,1,0,0,1,1 ? ? | num_heads=1 scale=0.1 "
    "mask_filter_value=-50";

}  // namespace

KILTER_OP(QAttention){
    .name = "QAttention",
    .domain = "com.microsoft",
    .family = Family::attention,
    .min_inputs = 5,
    .max_inputs = kInputs,
    .max_outputs = 2,
    .attrs = {{"do_rotary", "int", "0"},
              {"mask_filter_value", "float", "-10000"},
              {"num_heads", "int", "required"},
              {"past_present_share_buffer", "int", "0"},
              {"scale", "float", "0"},
              {"unidirectional", "int", "0"}},
    .summary =
        "Self-attention of x [batch, sequence, inputs] whose q, k and v are MatMulIntegerToFloat of x and weights "
        "[inputs, 3 * heads * size]: y [batch, sequence, heads * size] and the keys and values [2, batch, heads, "
        "positions, size]; inputs x, weights, bias, x_scale, weight_scale, mask_index, x_zero_point, "
        "weight_zero_point, past keys and values.",
    .expand = expand,
    .tolerance = {.rtol = 1e-4, .atol = 1e-5},
    .cases = {"u8[2,3,8] i8[8,24] f32[24] f32[]=0.01 f32[]=0.02 ? u8[]=50 i8[]=50 | num_heads=2", kEnds, kPastKeys,
              kRawMask, "u8[1,2,8] u8[8,12] f32[12] f32[] f32[]=0.02 i32[1,2,2]:1,0,1,1 u8[]=50 u8[]=50 | num_heads=1"},
};

}  // namespace kilter
