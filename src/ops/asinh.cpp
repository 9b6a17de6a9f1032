#include "ops/support/elementwise.h"
#include "ops/support/scalar.h"

namespace kilter {
namespace {

void reference(ReferenceContext& ctx) {
  reference_unary<Floats>(ctx, [](auto x) { return std::asinh(x); });
}

std::optional<Expr> scalar(const OpView& op, std::span<const Expr> in) {
  return scalar_float(op, in, [](const Expr& x) { return unary(Op::asinh, x); });
}

}  // namespace

KILTER_OP(Asinh){
    .name = "Asinh",
    .since = 9,
    .family = Family::map,
    .summary = "y = inverse hyperbolic sine of x.",
    .infer = infer_same_of<Floats>,
    .reference = reference,
    .scalar = scalar,
    .zero_preserving = true,
    .cases = {"f32[9]:-1e30,-10,-1,-1e-4,0,1e-4,1,10,1e30", "f32[2,3,5]", "f32[1]", "f32[17]", "f16[7]", "bf16[9]",
              "f64[33]"},
};

}  // namespace kilter
