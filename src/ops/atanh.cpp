#include "ops/support/elementwise.h"
#include "ops/support/scalar.h"

namespace kilter {
namespace {

void reference(ReferenceContext& ctx) {
  reference_unary<Floats>(ctx, [](auto x) { return std::atanh(x); });
}

std::optional<Expr> scalar(const OpView& op, std::span<const Expr> in) {
  return scalar_float(op, in, [](const Expr& x) { return unary(Op::atanh, x); });
}

}  // namespace

KILTER_OP(Atanh){
    .name = "Atanh",
    .since = 9,
    .family = Family::map,
    .summary = "y = inverse hyperbolic tangent of x; NaN outside [-1, 1].",
    .infer = infer_same_of<Floats>,
    .reference = reference,
    .scalar = scalar,
    .zero_preserving = true,
    .cases = {"f32[9]:-1,-0.99,-0.5,-1e-4,0,1e-4,0.5,0.99,1", "f32[2,3,5]", "f32[1]", "f32[17]", "f16[7]", "bf16[9]",
              "f64[33]"},
};

}  // namespace kilter
