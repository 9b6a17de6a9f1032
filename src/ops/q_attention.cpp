#include "ops/support/attention_expander.h"

namespace kilter {
namespace {

enum Input : size_t { kX, kW, kBias, kXScale, kWScale, kMask, kXZero, kWZero, kPast };
constexpr size_t kInputs = 9;

class Expansion : AttentionExpander {
 public:
  explicit Expansion(ExpandContext& ctx) : AttentionExpander(ctx) {}

  std::vector<ValueId> run() {
    check();
    const std::vector<ValueId> parts = split(projections(), 2, {hidden_, hidden_, hidden_});
    const ValueId mask =
        added_mask(kMask, "mask_index", {batch_, sequence_, past_ + sequence_, past_}, dtype(in(kBias)));
    Call call{.q = parts[0], .k = parts[1], .v = parts[2], .heads = heads_, .kv_heads = heads_, .mask = mask};
    if (has(kPast)) call.past_key = half_of_past(0), call.past_value = half_of_past(1);
    call.causal = node().int_attr("unidirectional", 0) != 0;
    call.attrs = scale();
    const Result r = attend(call);
    return {r.y, joined({unsqueezed(r.present_key), unsqueezed(r.present_value)}, 0)};
  }

 private:
  /// Throws bad_model or unsupported for operands and attributes whose errors the added nodes would not explain.
  void check() {
    for (const size_t i : {kX, kW, kBias, kXScale, kWScale}) {
      if (!has(i)) error(fmt::format("input {} is left out but required", i));
    }
    for (const char* key : {"do_rotary", "past_present_share_buffer"}) {
      if (node().int_attr(key, 0) == 0) continue;
      unsupported(fmt::format("attribute {} is not supported; export the model without it", key));
    }
    const Shape x = shape(in(kX)), w = shape(in(kW));
    heads_ = node().int_attr("num_heads", 0);
    if (x.size() != 3 || w.size() != 2 || heads_ < 1 || w[1] % 3 != 0 || w[1] / 3 % heads_ != 0) {
      error(
          fmt::format("has input {}, weights {} and num_heads {}; expected [batch, sequence, inputs] and "
                      "[inputs, 3 * num_heads * head_size]",
                      text(x), text(w), heads_));
    }
    batch_ = x[0];
    sequence_ = x[1];
    hidden_ = w[1] / 3;
    if (!has(kPast)) return;
    const Shape past = shape(in(kPast));
    const Shape expected = {2, batch_, heads_, past.size() == 5 ? past[3] : 0, hidden_ / heads_};
    if (past != expected) {
      error(fmt::format("past has shape {}, expected [2, {}, {}, past positions, {}]", text(past), batch_, heads_,
                        hidden_ / heads_));
    }
    past_ = past[3];
  }

  ValueId unsqueezed(ValueId v) { return add("Unsqueeze", {v, list({0})}); }

  /// Returns q, k and v, one after the other, as [batch, sequence, 3 * hidden].
  ValueId projections() {
    GraphBuilder::Options options;
    options.name = node().name;
    options.domain = "com.microsoft";
    return ctx_.builder
        .add("MatMulIntegerToFloat", {in(kX), in(kW), in(kXScale), in(kWScale), in(kXZero), in(kWZero), in(kBias)}, {},
             options)
        .front();
  }

  ValueId half_of_past(int64_t which) {
    return add("Gather", {in(kPast), scalar(DType::i64, static_cast<double>(which))});
  }

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
