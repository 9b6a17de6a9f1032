#include "ops/support/elementwise.h"
#include "ops/support/scalar.h"

namespace kilter {
namespace {

void reference(ReferenceContext& ctx) {
  reference_unary<Floats>(ctx, [](auto x) { return std::log(x); });
}

std::optional<Expr> scalar(const OpView& op, std::span<const Expr> in) {
  return scalar_float(op, in, [](const Expr& x) { return unary(Op::log, x); });
}

}  // namespace

KILTER_OP(Log){
    .name = "Log",
    .since = 6,
    .family = Family::map,
    .summary = "y = natural logarithm of x; NaN below zero, -inf at zero.",
    .infer = infer_same_of<Floats>,
    .reference = reference,
    .scalar = scalar,
    .cases = {"f32[2,3,5]", "f32[8]:0,1e-40,1e-30,0.5,1,1.0001,2,1e30", "f16[17]", "bf16[7]", "f64[33]",
              "f32[3]:nan,inf,-1"},
};

}  // namespace kilter
