#include "ops/support/quantized_elementwise.h"

namespace kilter {
namespace {

enum Input : size_t { kX, kXScale, kXZero, kYScale, kYZero };

void infer(InferContext& ctx) {
  check_quantized(ctx, kX);
  check_quantized(ctx, kYZero);
  check_per_tensor(ctx, ctx.dtype(kX), kXScale, kXZero, "x");
  check_per_tensor(ctx, ctx.dtype(kYZero), kYScale, kYZero, "y");
  ctx.set(0, ctx.dtype(kYZero), ctx.shape(kX));
}

void reference(ReferenceContext& ctx) {
  reference_quantized_unary(ctx, [](Quantity x) { return wide_product(x.value, x.scale); });
}

std::optional<Expr> scalar(const OpView& op, std::span<const Expr> in) {
  return scalar_quantized_unary(op, in, [](const OpView&, Expr x) { return x; });
}

}  // namespace

KILTER_OP(Requantize){
    .name = "Requantize",
    .domain = "kilter",
    .family = Family::map,
    .min_inputs = 5,
    .max_inputs = 5,
    .summary =
        "y = saturate(round((x - x_zero_point) * x_scale / y_scale) + y_zero_point), ties to even, in the type of "
        "y_zero_point; inputs x, x_scale, x_zero_point, y_scale, y_zero_point. Made by expansions.",
    .infer = infer,
    .reference = reference,
    .scalar = scalar,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"u8[2,3,17] f32[]=0.02 u8[]=50 f32[]=0.015 u8[]=12", "i8[33] f32[1]=0.5 i8[]=40 f32[]=0.05 u8[1]=3",
              "u8[5]:0,1,2,3,255 f32[]=0.5 u8[]=0 f32[]=1 i8[]=-128"},
};

}  // namespace kilter
