#include <algorithm>
#include <cmath>

#include "ops/support/elementwise.h"
#include "ops/support/formulas.h"
#include "ops/support/quantization.h"

namespace kilter {
namespace {

constexpr float kHighest = 255;

void infer(InferContext& ctx) {
  check_types(Types<float>{}, ctx, 0);
  ctx.set(0, DType::u8, ctx.shape(0));
  ctx.set(1, DType::f32, {});
  ctx.set(2, DType::u8, {});
}

void reference(ReferenceContext& ctx) {
  const std::span<float> x = ctx.in(0).span<float>();
  float low = 0;
  float high = 0;
  for (float v : x) {
    low = is_nan(low) || low < v ? low : v;
    high = is_nan(high) || high > v ? high : v;
  }
  const float range = high - low;
  const float scale = range == 0 ? 1 : range / kHighest;
  const float zero = std::nearbyint(std::clamp(-low / scale, 0.0F, kHighest));
  if (ctx.wants(0)) {
    std::vector<double> y(x.size());
    for (size_t i = 0; i < x.size(); ++i) {
      y[i] = static_cast<double>(quantize_value(x[i], scale, zero, DType::f32, integer_range(DType::u8)));
    }
    store_doubles(ctx.out(0), y);
  }
  if (ctx.wants(1)) *ctx.out(1).data<float>() = scale;
  if (ctx.wants(2)) store_doubles(ctx.out(2), std::vector<double>{static_cast<double>(zero)});
}

std::vector<ValueId> expand(ExpandContext& ctx) {
  const ValueId x = ctx.in(0);
  const ValueId zero = ctx.scalar(DType::f32, 0);
  const auto highest = static_cast<double>(kHighest);
  const ValueId high = ctx.add("Max", {ctx.add("ReduceMax", {x}, {{"keepdims", int64_t{0}}}), zero});
  const ValueId low = ctx.add("Min", {ctx.add("ReduceMin", {x}, {{"keepdims", int64_t{0}}}), zero});
  const ValueId range = ctx.add("Sub", {high, low});
  const ValueId step = ctx.add("Div", {range, ctx.scalar(DType::f32, highest)});
  const ValueId scale = ctx.add("Where", {ctx.add("Equal", {range, zero}), ctx.scalar(DType::f32, 1), step});
  const ValueId start = ctx.add("Div", {ctx.add("Sub", {zero, low}), scale});
  const ValueId limited = ctx.add("Clip", {start, zero, ctx.scalar(DType::f32, highest)});
  const ValueId zero_point = ctx.add("Cast", {ctx.add("Round", {limited})}, {{"to", int64_t{2}}});
  return {ctx.add("QuantizeLinear", {x, scale, zero_point}), scale, zero_point};
}

}  // namespace

KILTER_OP(DynamicQuantizeLinear){
    .name = "DynamicQuantizeLinear",
    .since = 11,
    .family = Family::reduce,
    .min_outputs = 3,
    .max_outputs = 3,
    .summary =
        "Quantises f32 x to u8 by the range of its values and 0: outputs y, the scale (1 if all values are 0) and the "
        "zero point.",
    .infer = infer,
    .reference = reference,
    .expand = expand,
    .tolerance = {.rtol = 1e-6, .atol = 0},
    .cases = {"f32[2,3,5]", "f32[6]:0,2,-3,-2.5,1.34,0.5", "f32[6]:-1,-2.1,-1.3,-2.5,-3.34,-4",
              "f32[3,4]:1,2.1,1.3,2.5,3.34,4,1.5,2.6,3.9,4,3,2.345", "f32[17]", "f32[3]:0", "f32[3]:nan,1,-1"},
};

}  // namespace kilter
