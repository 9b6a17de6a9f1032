#include "ops/support/float_predicate.h"
#include "ops/support/scalar.h"

namespace kilter {
namespace {

void reference(ReferenceContext& ctx) {
  reference_float_predicate(ctx, [](auto x) { return std::isnan(x); });
}

std::optional<Expr> scalar(const OpView& op, std::span<const Expr> in) {
  if (is_narrow(op.inputs[0].dtype)) return std::nullopt;
  return unary(Op::is_nan, wide(in[0]));
}

}  // namespace

KILTER_OP(IsNaN){
    .name = "IsNaN",
    .since = 9,
    .family = Family::map,
    .summary = "y = whether x is NaN.",
    .infer = infer_float_predicate,
    .reference = reference,
    .scalar = scalar,
    .zero_preserving = true,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"f32[2,3,5]", "f32[4]:nan,inf,-inf,0", "f16[3]:nan,1,inf", "bf16[17]", "f64[2]:nan,5",
              "f8e5m2[5]:nan,inf,0,1,-inf", "f8e4m3fnuz[2]:nan,1"},
};

}  // namespace kilter
