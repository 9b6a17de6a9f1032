#include "ops/support/elementwise.h"
#include "ops/support/scalar.h"

namespace kilter {
namespace {

void reference(ReferenceContext& ctx) {
  reference_unary<Floats>(ctx, [](auto x) { return std::nearbyint(x); });
}

std::optional<Expr> scalar(const OpView& op, std::span<const Expr> in) {
  return scalar_unary(op, in, [](const Expr& x) { return unary(Op::round_even, x); });
}

}  // namespace

KILTER_OP(Round){
    .name = "Round",
    .since = 11,
    .family = Family::map,
    .summary = "y = the nearest integer, halves to the even one.",
    .infer = infer_same_of<Floats>,
    .reference = reference,
    .scalar = scalar,
    .zero_preserving = true,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"f32[2,3,5]", "f32[9]:-2.5,-1.5,-0.5,0,0.5,1.5,2.5,2.4,8388609", "f16[17]", "bf16[7]", "f64[33]",
              "f32[3]:nan,inf,-inf"},
};

}  // namespace kilter
