#include "ops/support/elementwise.h"
#include "ops/support/scalar.h"

namespace kilter {
namespace {

void reference(ReferenceContext& ctx) {
  reference_unary<Floats>(ctx, [](auto x) { return std::ceil(x); });
}

std::optional<Expr> scalar(const OpView& op, std::span<const Expr> in) {
  return scalar_unary(op, in, [](const Expr& x) { return unary(Op::ceil, x); });
}

}  // namespace

KILTER_OP(Ceil){
    .name = "Ceil",
    .since = 6,
    .family = Family::map,
    .summary = "y = the smallest integer not below x.",
    .infer = infer_same_of<Floats>,
    .reference = reference,
    .scalar = scalar,
    .zero_preserving = true,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"f32[2,3,5]", "f32[7]:-1.5,-1,-0.25,0,0.25,1.5,8388609", "f16[17]", "bf16[7]", "f64[33]",
              "f32[3]:nan,inf,-inf"},
};

}  // namespace kilter
