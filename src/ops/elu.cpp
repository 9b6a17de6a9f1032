#include "ops/support/elementwise.h"
#include "ops/support/scalar.h"

namespace kilter {
namespace {

void reference(ReferenceContext& ctx) {
  const double alpha = ctx.node.float_attr("alpha", 1.0F);
  reference_unary<Floats>(ctx, [=](auto x) { return x < 0 ? alpha * std::expm1(x) : x; });
}

std::optional<Expr> scalar(const OpView& op, std::span<const Expr> in) {
  const double alpha = op.node.float_attr("alpha", 1.0F);
  return scalar_float(op, in, [=](const Expr& x) {
    return select(binary(Op::lt, x, like(x, 0)), like(x, alpha) * unary(Op::expm1, x), x);
  });
}

}  // namespace

KILTER_OP(Elu){
    .name = "Elu",
    .since = 6,
    .family = Family::map,
    .attrs = {{"alpha", "float", "1"}},
    .summary = "y = x < 0 ? alpha * (exp(x) - 1) : x.",
    .infer = infer_same_of<Floats>,
    .reference = reference,
    .scalar = scalar,
    .zero_preserving = true,
    .cases = {"f32[2,3,5]", "f32[17] | alpha=0.2", "f32[5]:-200,-1e-5,0,1e-5,200", "f16[7]", "bf16[9] | alpha=2.0",
              "f64[33]"},
};

}  // namespace kilter
