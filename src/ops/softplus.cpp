#include "ops/support/elementwise.h"
#include "ops/support/formulas.h"
#include "ops/support/scalar.h"

namespace kilter {
namespace {

void reference(ReferenceContext& ctx) {
  reference_unary<Floats>(ctx, [](auto x) { return softplus(x); });
}

std::optional<Expr> scalar(const OpView& op, std::span<const Expr> in) {
  return scalar_float(op, in, [](const Expr& x) { return softplus(x); });
}

}  // namespace

KILTER_OP(Softplus){
    .name = "Softplus",
    .since = 1,
    .family = Family::map,
    .summary = "y = log(1 + exp(x)).",
    .infer = infer_same_of<Floats>,
    .reference = reference,
    .scalar = scalar,
    .cases = {"f32[2,3,5]", "f32[9]:-200,-88,-10,-1,0,1,10,88,200", "f32[17]", "f16[7]", "bf16[9]", "f64[33]",
              "f32[3]:nan,inf,-inf"},
};

}  // namespace kilter
