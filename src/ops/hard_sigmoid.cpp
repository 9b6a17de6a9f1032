#include "ops/support/elementwise.h"
#include "ops/support/formulas.h"
#include "ops/support/scalar.h"

namespace kilter {
namespace {

void reference(ReferenceContext& ctx) {
  const double alpha = ctx.node.float_attr("alpha", 0.2F);
  const double beta = ctx.node.float_attr("beta", 0.5F);
  reference_unary<Floats>(ctx, [=](auto x) { return clamp01(alpha * x + beta); });
}

std::optional<Expr> scalar(const OpView& op, std::span<const Expr> in) {
  const double alpha = op.node.float_attr("alpha", 0.2F);
  const double beta = op.node.float_attr("beta", 0.5F);
  return scalar_unary(op, in, [=](const Expr& x) { return clamp01(x * like(x, alpha) + like(x, beta)); });
}

}  // namespace

KILTER_OP(HardSigmoid){
    .name = "HardSigmoid",
    .since = 6,
    .family = Family::map,
    .attrs = {{"alpha", "float", "0.2"}, {"beta", "float", "0.5"}},
    .summary = "y = clamp(alpha * x + beta, 0, 1).",
    .infer = infer_same_of<Floats>,
    .reference = reference,
    .scalar = scalar,
    .cases = {"f32[2,3,5]", "f32[17] | alpha=0.5 beta=0.6", "f32[5]:-100,-2.5,0,2.5,100", "f16[7]",
              "bf16[9] | alpha=0.5", "f64[33]", "f32[1]:nan"},
};

}  // namespace kilter
