#include "ops/support/formulas.h"
#include "ops/support/quantized_elementwise.h"

namespace kilter {
namespace {

void reference(ReferenceContext& ctx) {
  reference_quantized_unary(ctx, [](Quantity x) { return Wide{logistic(x.value * x.scale), 0}; });
}

std::optional<Expr> scalar(const OpView& op, std::span<const Expr> in) {
  return scalar_quantized_unary(op, in, [](const OpView&, Expr x) { return unary(Op::sigmoid, std::move(x)); });
}

}  // namespace

KILTER_OP(QLinearSigmoid){
    .name = "QLinearSigmoid",
    .domain = "com.microsoft",
    .family = Family::map,
    .min_inputs = 2,
    .max_inputs = 5,
    .summary =
        "Sigmoid of quantised x into quantised y, rounded once, ties to even; inputs x, x_scale, x_zero_point, "
        "y_scale, "
        "y_zero_point, all of i8 or all of u8.",
    .infer = infer_quantized_unary,
    .reference = reference,
    .scalar = scalar,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"u8[2,3,17] f32[]=0.1 u8[]=50 f32[]=0.00390625 u8[]=0",
              "i8[33] f32[1]=0.5 i8[]=40 f32[]=0.004 i8[1]=-128", "i8[5]:-128,-1,0,1,127 f32[]=0.1 ? f32[]=0.01",
              "u8[7] f32[]=1 ? f32[]=0.004 u8[]=1"},
};

}  // namespace kilter
