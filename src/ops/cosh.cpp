#include "ops/support/elementwise.h"
#include "ops/support/scalar.h"

namespace kilter {
namespace {

void reference(ReferenceContext& ctx) {
  reference_unary<Floats>(ctx, [](auto x) { return std::cosh(x); });
}

std::optional<Expr> scalar(const OpView& op, std::span<const Expr> in) {
  return scalar_float(op, in, [](const Expr& x) { return unary(Op::cosh, x); });
}

}  // namespace

KILTER_OP(Cosh){
    .name = "Cosh",
    .since = 9,
    .family = Family::map,
    .summary = "y = hyperbolic cosine of x.",
    .infer = infer_same_of<Floats>,
    .reference = reference,
    .scalar = scalar,
    .cases = {"f32[7]:-80,-10,-1,0,1,10,80", "f32[2,3,5]", "f32[1]", "f32[17]", "f16[7]", "bf16[9]", "f64[33]"},
};

}  // namespace kilter
