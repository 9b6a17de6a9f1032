#include "ops/support/quantized_elementwise.h"
#include "ops/support/scalar.h"

namespace kilter {
namespace {

double alpha_of(const Node& node) { return static_cast<double>(node.float_attr("alpha", 0.01F)); }

void reference(ReferenceContext& ctx) {
  const double alpha = alpha_of(ctx.node);
  reference_quantized_unary(ctx, [=](Quantity x) {
    const double real = x.value * x.scale;
    return real < 0 ? wide_product(real, alpha) : Wide{real, 0};
  });
}

std::optional<Expr> scalar(const OpView& op, std::span<const Expr> in) {
  return scalar_quantized_unary(op, in, [](const OpView& view, Expr x) {
    return select(binary(Op::lt, x, like(x, 0)), x * like(x, alpha_of(view.node)), x);
  });
}

}  // namespace

KILTER_OP(QLinearLeakyRelu){
    .name = "QLinearLeakyRelu",
    .domain = "com.microsoft",
    .family = Family::map,
    .min_inputs = 2,
    .max_inputs = 5,
    .attrs = {{"alpha", "float", "0.01"}},
    .summary =
        "LeakyRelu of quantised x into quantised y, rounded once, ties to even; inputs x, x_scale, x_zero_point, "
        "y_scale, y_zero_point, all of i8 or all of u8.",
    .infer = infer_quantized_unary,
    .reference = reference,
    .scalar = scalar,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"u8[2,3,17] f32[]=0.02 u8[]=50 f32[]=0.015 u8[]=12",
              "i8[33] f32[1]=0.5 i8[]=40 f32[]=0.05 i8[1]=-3 | alpha=0.2",
              "i8[5]:-128,-1,0,1,127 f32[]=0.1 ? f32[]=0.1 | alpha=0.5", "u8[7] f32[]=1 ? f32[]=1 u8[]=200"},
};

}  // namespace kilter
