#include "ops/support/elementwise.h"
#include "ops/support/scalar.h"

namespace kilter {
namespace {

void reference(ReferenceContext& ctx) {
  reference_unary<Floats>(ctx, [](auto x) { return std::tanh(x); });
}

std::optional<Expr> scalar(const OpView& op, std::span<const Expr> in) {
  return scalar_float(op, in, [](const Expr& x) { return unary(Op::tanh, x); });
}

}  // namespace

KILTER_OP(Tanh){
    .name = "Tanh",
    .since = 6,
    .family = Family::map,
    .summary = "y = hyperbolic tangent of x.",
    .infer = infer_same_of<Floats>,
    .reference = reference,
    .scalar = scalar,
    .zero_preserving = true,
    .cases = {"f32[2,3,5]", "f32[9]:-100,-10,-1,-1e-4,0,1e-4,1,10,100", "f32[17]", "f16[7]", "bf16[9]", "f64[33]",
              "f32[3]:nan,inf,-inf"},
};

}  // namespace kilter
