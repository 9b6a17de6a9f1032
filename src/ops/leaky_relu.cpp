#include "ops/support/elementwise.h"
#include "ops/support/scalar.h"

namespace kilter {
namespace {

void reference(ReferenceContext& ctx) {
  const double alpha = ctx.node.float_attr("alpha", 0.01F);
  reference_unary<Floats>(ctx, [=](auto x) { return x < 0 ? alpha * x : x; });
}

std::optional<Expr> scalar(const OpView& op, std::span<const Expr> in) {
  const double alpha = op.node.float_attr("alpha", 0.01F);
  return scalar_unary(op, in,
                      [=](const Expr& x) { return select(binary(Op::lt, x, like(x, 0)), x * like(x, alpha), x); });
}

}  // namespace

KILTER_OP(LeakyRelu){
    .name = "LeakyRelu",
    .since = 6,
    .family = Family::map,
    .attrs = {{"alpha", "float", "0.01"}},
    .summary = "y = x < 0 ? alpha * x : x.",
    .infer = infer_same_of<Floats>,
    .reference = reference,
    .scalar = scalar,
    .zero_preserving = true,
    .cases = {"f32[2,3,5]", "f32[17] | alpha=0.2", "f16[7]", "bf16[9] | alpha=0.5", "f64[33]", "f32[1]:nan",
              "f32[5] | alpha=2.0 | 7"},
};

}  // namespace kilter
