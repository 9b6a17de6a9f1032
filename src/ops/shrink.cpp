#include "ops/support/elementwise.h"
#include "ops/support/scalar.h"

namespace kilter {
namespace {

double shrink(double x, double lambd, double bias) {
  if (x < -lambd) return x + bias;
  return x > lambd ? x - bias : 0;
}

void reference(ReferenceContext& ctx) {
  const double bias = ctx.node.float_attr("bias", 0.0F);
  const double lambd = ctx.node.float_attr("lambd", 0.5F);
  reference_unary<Numbers>(ctx, [=](auto x) { return shrink(static_cast<double>(x), lambd, bias); });
}

std::optional<Expr> scalar(const OpView& op, std::span<const Expr> in) {
  const double bias = op.node.float_attr("bias", 0.0F);
  const double lambd = op.node.float_attr("lambd", 0.5F);
  return scalar_float(op, in, [=](const Expr& x) {
    return select(binary(Op::lt, x, like(x, -lambd)), x + like(x, bias),
                  select(binary(Op::gt, x, like(x, lambd)), x - like(x, bias), like(x, 0)));
  });
}

}  // namespace

KILTER_OP(Shrink){
    .name = "Shrink",
    .since = 9,
    .family = Family::map,
    .attrs = {{"bias", "float", "0"}, {"lambd", "float", "0.5"}},
    .summary = "y = x < -lambd ? x + bias : x > lambd ? x - bias : 0.",
    .infer = infer_same_of<Numbers>,
    .reference = reference,
    .scalar = scalar,
    .cases = {"f32[2,3,5]", "f32[17] | lambd=1.5 bias=1.5", "f16[7] | lambd=0.25", "f64[33]",
              "i32[5]:-3,-1,0,1,3 | lambd=1.5 bias=1.0"},
};

}  // namespace kilter
