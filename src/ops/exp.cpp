#include "ops/support/elementwise.h"
#include "ops/support/scalar.h"

namespace kilter {
namespace {

void reference(ReferenceContext& ctx) {
  reference_unary<Floats>(ctx, [](auto x) { return std::exp(x); });
}

std::optional<Expr> scalar(const OpView& op, std::span<const Expr> in) {
  return scalar_float(op, in, [](const Expr& x) { return unary(Op::exp, x); });
}

}  // namespace

KILTER_OP(Exp){
    .name = "Exp",
    .since = 6,
    .family = Family::map,
    .summary = "y = e to the power x.",
    .infer = infer_same_of<Floats>,
    .reference = reference,
    .scalar = scalar,
    .cases = {"f32[2,3,5]", "f32[7]:-200,-87.5,-1,0,1,88.5,200", "f16[17]", "bf16[7]", "f64[33]",
              "f32[3]:nan,inf,-inf"},
};

}  // namespace kilter
