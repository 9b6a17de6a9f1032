#include "ops/support/elementwise.h"
#include "ops/support/scalar.h"

namespace kilter {
namespace {

void reference(ReferenceContext& ctx) {
  reference_unary<SignedNumbers>(ctx, [](auto x) { return wrap_neg(x); });
}

std::optional<Expr> scalar(const OpView& op, std::span<const Expr> in) {
  return scalar_unary(op, in, [](const Expr& x) { return unary(Op::neg, x); });
}

}  // namespace

KILTER_OP(Neg){
    .name = "Neg",
    .since = 6,
    .family = Family::map,
    .summary = "y = -x; integers wrap.",
    .infer = infer_same_of<SignedNumbers>,
    .reference = reference,
    .scalar = scalar,
    .zero_preserving = true,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"f32[2,3,5]", "f32[1]", "f16[17]", "bf16[7]", "f64[33]", "i8[3]:-128,-1,5", "i32[9]", "i64[7]"},
};

}  // namespace kilter
