#include "ops/support/elementwise.h"
#include "ops/support/scalar.h"

namespace kilter {
namespace {

void reference(ReferenceContext& ctx) {
  reference_unary<Floats>(ctx, [](auto x) { return std::sqrt(x); });
}

std::optional<Expr> scalar(const OpView& op, std::span<const Expr> in) {
  return scalar_unary(op, in, [](const Expr& x) { return unary(Op::sqrt, x); });
}

}  // namespace

KILTER_OP(Sqrt){
    .name = "Sqrt",
    .since = 6,
    .family = Family::map,
    .summary = "y = square root of x; NaN below zero.",
    .infer = infer_same_of<Floats>,
    .reference = reference,
    .scalar = scalar,
    .zero_preserving = true,
    .cases = {"f32[2,3,5]", "f32[7]:0,0.25,1,2,1e-30,1e30,inf", "f16[17]", "f64[33]", "f32[2]:-1,nan"},
};

}  // namespace kilter
