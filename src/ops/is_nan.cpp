#include "ops/support/elementwise.h"
#include "ops/support/scalar.h"

namespace kilter {
namespace {

void reference(ReferenceContext& ctx) {
  reference_predicate<Floats>(ctx, [](auto x) { return std::isnan(x); });
}

std::optional<Expr> scalar(const OpView&, std::span<const Expr> in) { return unary(Op::is_nan, wide(in[0])); }

}  // namespace

KILTER_OP(IsNaN){
    .name = "IsNaN",
    .since = 9,
    .family = Family::map,
    .summary = "y = whether x is NaN.",
    .infer = infer_predicate_of<Floats>,
    .reference = reference,
    .scalar = scalar,
    .zero_preserving = true,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"f32[2,3,5]", "f32[4]:nan,inf,-inf,0", "f16[3]:nan,1,inf", "bf16[17]", "f64[2]:nan,5"},
};

}  // namespace kilter
