#include "ops/support/elementwise.h"
#include "ops/support/formulas.h"
#include "ops/support/scalar.h"

namespace kilter {
namespace {

void reference(ReferenceContext& ctx) {
  const double alpha = ctx.node.float_attr("alpha", 1.0F);
  reference_unary<Floats>(ctx, [=](auto x) { return x * logistic(alpha * x); });
}

std::optional<Expr> scalar(const OpView& op, std::span<const Expr> in) {
  const double alpha = op.node.float_attr("alpha", 1.0F);
  return scalar_float(op, in, [=](const Expr& x) { return x * unary(Op::sigmoid, x * like(x, alpha)); });
}

}  // namespace

KILTER_OP(Swish){
    .name = "Swish",
    .since = 24,
    .family = Family::map,
    .attrs = {{"alpha", "float", "1"}},
    .summary = "y = x / (1 + exp(-alpha * x)).",
    .infer = infer_same_of<Floats>,
    .reference = reference,
    .scalar = scalar,
    .zero_preserving = true,
    .cases = {"f32[2,3,5]", "f32[17] | alpha=2.0", "f32[5]:-200,-1,0,1,200", "f16[7]", "bf16[9] | alpha=0.5",
              "f64[33]"},
};

}  // namespace kilter
