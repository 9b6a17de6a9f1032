#include "ops/support/elementwise.h"
#include "ops/support/scalar.h"

namespace kilter {
namespace {

void reference(ReferenceContext& ctx) {
  reference_unary<Numbers>(ctx, [](auto x) { return std::erf(static_cast<double>(x)); });
}

std::optional<Expr> scalar(const OpView& op, std::span<const Expr> in) {
  return scalar_f32_math(op, in, [](const Expr& x) { return unary(Op::erf, x); });
}

}  // namespace

KILTER_OP(Erf){
    .name = "Erf",
    .since = 9,
    .family = Family::map,
    .summary = "y = error function of x; integers truncate.",
    .infer = infer_same_of<Numbers>,
    .reference = reference,
    .scalar = scalar,
    .zero_preserving = true,
    .cases = {"f32[2,3,5]", "f32[9]:-100,-4,-1,-1e-4,0,1e-4,1,4,100", "f32[17]", "f16[7]", "bf16[9]", "f64[33]",
              "i32[3]:-5,0,5", "f32[3]:nan,inf,-inf"},
};

}  // namespace kilter
