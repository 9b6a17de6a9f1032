#include "ops/support/elementwise.h"
#include "ops/support/scalar.h"

namespace kilter {
namespace {

void reference(ReferenceContext& ctx) {
  reference_unary<Floats>(ctx, [](auto x) { return std::atan(x); });
}

std::optional<Expr> scalar(const OpView& op, std::span<const Expr> in) {
  return scalar_float(op, in, [](const Expr& x) { return unary(Op::atan, x); });
}

}  // namespace

KILTER_OP(Atan){
    .name = "Atan",
    .since = 7,
    .family = Family::map,
    .summary = "y = arctangent of x in radians.",
    .infer = infer_same_of<Floats>,
    .reference = reference,
    .scalar = scalar,
    .zero_preserving = true,
    .cases = {"f32[9]:-1e30,-10,-1,-0.1,0,0.1,1,10,1e30", "f32[2,3,5]", "f32[1]", "f32[17]", "f16[7]", "bf16[9]",
              "f64[33]"},
};

}  // namespace kilter
