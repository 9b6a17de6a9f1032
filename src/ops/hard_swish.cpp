#include "ops/support/elementwise.h"
#include "ops/support/formulas.h"
#include "ops/support/scalar.h"

namespace kilter {
namespace {

void reference(ReferenceContext& ctx) {
  reference_unary<Floats>(ctx, [](auto x) { return x * clamp01(x / 6 + static_cast<decltype(x)>(0.5)); });
}

std::optional<Expr> scalar(const OpView& op, std::span<const Expr> in) {
  return scalar_unary(op, in, [](const Expr& x) { return x * clamp01(x * like(x, 1.0 / 6) + like(x, 0.5)); });
}

}  // namespace

KILTER_OP(HardSwish){
    .name = "HardSwish",
    .since = 14,
    .family = Family::map,
    .summary = "y = x * clamp(x / 6 + 1 / 2, 0, 1).",
    .infer = infer_same_of<Floats>,
    .reference = reference,
    .scalar = scalar,
    .zero_preserving = true,
    .cases = {"f32[2,3,5]", "f32[9]:-100,-3,-2.9,-1,0,1,2.9,3,100", "f32[17]", "f16[7]", "bf16[9]", "f64[33]",
              "f32[1]:nan"},
};

}  // namespace kilter
