#include "ops/support/elementwise.h"
#include "ops/support/scalar.h"

namespace kilter {
namespace {

void reference(ReferenceContext& ctx) {
  reference_unary<Floats>(ctx, [](auto x) { return std::cos(x); });
}

std::optional<Expr> scalar(const OpView& op, std::span<const Expr> in) {
  return scalar_f32_math(op, in, [](const Expr& x) { return unary(Op::cos, x); });
}

}  // namespace

KILTER_OP(Cos){
    .name = "Cos",
    .since = 7,
    .family = Family::map,
    .summary = "y = cosine of x in radians.",
    .infer = infer_same_of<Floats>,
    .reference = reference,
    .scalar = scalar,
    .cases = {"f32[9]:-1000,-100.5,-3.1415927,-1,0,1,1.5707963,100.5,1000", "f32[2,3,5]", "f32[1]", "f32[17]", "f16[7]",
              "bf16[9]", "f64[33]"},
};

}  // namespace kilter
