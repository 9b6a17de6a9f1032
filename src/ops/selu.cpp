#include "ops/support/elementwise.h"
#include "ops/support/scalar.h"

namespace kilter {
namespace {

void reference(ReferenceContext& ctx) {
  const double alpha = ctx.node.float_attr("alpha", 1.67326319217681884765625F);
  const double gamma = ctx.node.float_attr("gamma", 1.05070102214813232421875F);
  reference_unary<Floats>(ctx, [=](auto x) { return gamma * (x > 0 ? x : alpha * std::expm1(x)); });
}

std::optional<Expr> scalar(const OpView& op, std::span<const Expr> in) {
  const double alpha = op.node.float_attr("alpha", 1.67326319217681884765625F);
  const double gamma = op.node.float_attr("gamma", 1.05070102214813232421875F);
  return scalar_float(op, in, [=](const Expr& x) {
    return like(x, gamma) * select(binary(Op::gt, x, like(x, 0)), x, like(x, alpha) * unary(Op::expm1, x));
  });
}

}  // namespace

KILTER_OP(Selu){
    .name = "Selu",
    .since = 6,
    .family = Family::map,
    .attrs = {{"alpha", "float", "1.67326319217681884765625"}, {"gamma", "float", "1.05070102214813232421875"}},
    .summary = "y = gamma * (x > 0 ? x : alpha * (exp(x) - 1)).",
    .infer = infer_same_of<Floats>,
    .reference = reference,
    .scalar = scalar,
    .zero_preserving = true,
    .cases = {"f32[2,3,5]", "f32[17] | alpha=2.0 gamma=3.0", "f32[5]:-200,-1e-5,0,1e-5,200", "f16[7]", "bf16[9]",
              "f64[33]"},
};

}  // namespace kilter
