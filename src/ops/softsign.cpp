#include "ops/support/elementwise.h"
#include "ops/support/scalar.h"

namespace kilter {
namespace {

void reference(ReferenceContext& ctx) {
  reference_unary<Floats>(ctx, [](auto x) { return x / (1 + std::abs(x)); });
}

std::optional<Expr> scalar(const OpView& op, std::span<const Expr> in) {
  return scalar_unary(op, in, [](const Expr& x) { return x / (like(x, 1) + unary(Op::abs, x)); });
}

}  // namespace

KILTER_OP(Softsign){
    .name = "Softsign",
    .since = 1,
    .family = Family::map,
    .summary = "y = x / (1 + |x|).",
    .infer = infer_same_of<Floats>,
    .reference = reference,
    .scalar = scalar,
    .zero_preserving = true,
    .cases = {"f32[2,3,5]", "f32[1]", "f32[7]", "f32[17]", "f32[3,11]", "f16[4,7]", "bf16[9]", "f64[6]"},
};

}  // namespace kilter
