#include "ops/support/elementwise.h"
#include "ops/support/scalar.h"

namespace kilter {
namespace {

void reference(ReferenceContext& ctx) {
  const double alpha = ctx.node.float_attr("alpha", 1.0F);
  reference_unary<Floats>(ctx, [=](auto x) { return x > alpha ? x : 0; });
}

std::optional<Expr> scalar(const OpView& op, std::span<const Expr> in) {
  const double alpha = op.node.float_attr("alpha", 1.0F);
  return scalar_unary(op, in, [=](const Expr& x) { return select(binary(Op::gt, x, like(x, alpha)), x, like(x, 0)); });
}

}  // namespace

KILTER_OP(ThresholdedRelu){
    .name = "ThresholdedRelu",
    .since = 10,
    .family = Family::map,
    .attrs = {{"alpha", "float", "1"}},
    .summary = "y = x > alpha ? x : 0.",
    .infer = infer_same_of<Floats>,
    .reference = reference,
    .scalar = scalar,
    .zero_preserving = true,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"f32[2,3,5]", "f32[17] | alpha=-0.5", "f16[7]", "bf16[9] | alpha=0.0", "f64[33]"},
};

}  // namespace kilter
