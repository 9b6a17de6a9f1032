#include "ops/support/elementwise.h"
#include "ops/support/scalar.h"

namespace kilter {
namespace {

void reference(ReferenceContext& ctx) {
  reference_unary<Floats>(ctx, [](auto x) { return 1 / x; });
}

std::optional<Expr> scalar(const OpView& op, std::span<const Expr> in) {
  return scalar_unary(op, in, [](const Expr& x) { return like(x, 1) / x; });
}

}  // namespace

KILTER_OP(Reciprocal){
    .name = "Reciprocal",
    .since = 6,
    .family = Family::map,
    .summary = "y = 1 / x.",
    .infer = infer_same_of<Floats>,
    .reference = reference,
    .scalar = scalar,
    .cases = {"f32[2,3,5]", "f32[5]:0,-4,0.5,inf,nan", "f16[17]", "bf16[7]", "f64[33]"},
};

}  // namespace kilter
