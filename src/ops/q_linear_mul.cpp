#include "ops/support/integer_form.h"
#include "ops/support/quantized_elementwise.h"

namespace kilter {
namespace {

void reference(ReferenceContext& ctx) {
  reference_quantized_binary(ctx,
                             [](Quantity a, Quantity b) { return wide_product(a.value * b.value, a.scale * b.scale); });
}

std::vector<ValueId> expand(ExpandContext& ctx) {
  const ValueId product = ctx.add("Mul", {integers(ctx, 0, 2), integers(ctx, 3, 5)});
  const ValueId scales = ctx.add("Mul", {in_f64(ctx, ctx.in(1)), in_f64(ctx, ctx.in(4))});
  const ValueId factor = ctx.add("Div", {scales, in_f64(ctx, ctx.in(6))});
  return {quantised(ctx, {product, factor}, 7, ctx.type(0).dtype)};
}

}  // namespace

KILTER_OP(QLinearMul){
    .name = "QLinearMul",
    .domain = "com.microsoft",
    .min_inputs = 2,
    .max_inputs = 8,
    .summary =
        "Mul of quantised a and b into quantised c: c = saturate(round(a * b / c_scale) + c_zero_point), broadcast, "
        "ties to even; inputs a, a_scale, a_zero_point, b, b_scale, b_zero_point, c_scale, c_zero_point, all of i8 or "
        "all of u8.",
    .infer = infer_quantized_binary,
    .reference = reference,
    .expand = expand,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"u8[2,3,5] f32[]=0.02 u8[]=50 u8[2,3,5] f32[]=0.01 u8[]=3 f32[]=0.005 u8[]=12",
              "i8[2,3,17] f32[1]=0.5 i8[1]=10 i8[17] f32[1]=0.25 i8[]=-3 f32[]=9 i8[1]=-12",
              "u8[1,16,5,7] f32[]=0.1 ? u8[16,1,1] f32[]=0.3 ? f32[]=0.4",
              "i8[33] f32[]=-0.1 i8[]=3 i8[33] f32[]=1 ? f32[]=-0.7", "u8[9] f32[] u8[] u8[9] f32[] u8[] f32[] u8[]"},
};

}  // namespace kilter
