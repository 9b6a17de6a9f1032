#include "ops/support/elementwise.h"
#include "ops/support/formulas.h"
#include "ops/support/scalar.h"

namespace kilter {
namespace {

void reference(ReferenceContext& ctx) {
  reference_unary<Floats>(ctx, [](auto x) { return x * std::tanh(softplus(x)); });
}

// With e = exp(x), tanh(log(1 + e)) = n / (n + 2), where n = e * (e + 2). At x = 20 this is 1 to within f32 rounding,
// so e needs no larger range.
Expr mish_gate(const Expr& x) {
  const Expr e = unary(Op::exp, min(like(x, 20), x));
  const Expr n = e * (e + like(x, 2));
  return n / (n + like(x, 2));
}

std::optional<Expr> scalar(const OpView& op, std::span<const Expr> in) {
  return scalar_float(op, in, [](const Expr& x) { return x * mish_gate(x); });
}

}  // namespace

KILTER_OP(Mish){
    .name = "Mish",
    .since = 18,
    .family = Family::map,
    .summary = "y = x * tanh(log(1 + exp(x))).",
    .infer = infer_same_of<Floats>,
    .reference = reference,
    .scalar = scalar,
    .zero_preserving = true,
    .cases = {"f32[2,3,5]", "f32[9]:-200,-20,-5,-1,0,1,5,20,200", "f32[17]", "f16[7]", "bf16[9]", "f32[1]:nan"},
};

}  // namespace kilter
