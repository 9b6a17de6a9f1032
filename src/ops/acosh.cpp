#include "ops/support/elementwise.h"
#include "ops/support/scalar.h"

namespace kilter {
namespace {

void reference(ReferenceContext& ctx) {
  reference_unary<Floats>(ctx, [](auto x) { return std::acosh(x); });
}

std::optional<Expr> scalar(const OpView& op, std::span<const Expr> in) {
  return scalar_float(op, in, [](const Expr& x) { return unary(Op::acosh, x); });
}

}  // namespace

KILTER_OP(Acosh){
    .name = "Acosh",
    .since = 9,
    .family = Family::map,
    .summary = "y = inverse hyperbolic cosine of x; NaN below 1.",
    .infer = infer_same_of<Floats>,
    .reference = reference,
    .scalar = scalar,
    .cases = {"f32[7]:1,1.0001,1.5,2,10,1000,1e30", "f32[2,3,5]", "f32[1]", "f32[17]", "f16[7]", "bf16[9]", "f64[33]"},
};

}  // namespace kilter
