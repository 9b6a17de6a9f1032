#include "ops/support/elementwise.h"
#include "ops/support/formulas.h"

namespace kilter {
namespace {

void infer(InferContext& ctx) {
  check_types(Floats{}, ctx, 0);
  check_same_dtype(ctx);
  if (ctx.shape(0) != ctx.shape(1)) {
    ctx.error(
        fmt::format("inputs have shapes {} and {}; they must be the same", text(ctx.shape(0)), text(ctx.shape(1))));
  }
  infer_same(ctx);
}

void reference(ReferenceContext& ctx) {
  const double alpha = ctx.node.float_attr("alpha", 1.0F);
  reference_binary<Floats>(ctx, [=](auto gate, auto x) { return gate * logistic(alpha * gate) * x; });
}

std::optional<Expr> scalar(const OpView& op, std::span<const Expr> in) {
  const double alpha = op.node.float_attr("alpha", 1.0F);
  return scalar_binary(
      op, in, [=](const Expr& gate, const Expr& x) { return gate * unary(Op::sigmoid, gate * like(gate, alpha)) * x; });
}

}  // namespace

KILTER_OP(SwiGLU){
    .name = "SwiGLU",
    .since = 28,
    .family = Family::map,
    .min_inputs = 2,
    .max_inputs = 2,
    .attrs = {{"alpha", "float", "1"}},
    .summary = "y = a / (1 + exp(-alpha * a)) * b for a and b of the same shape.",
    .infer = infer,
    .reference = reference,
    .scalar = scalar,
    .zero_preserving = true,
    .cases = {"f32[2,3,5] f32[2,3,5]", "f32[17] f32[17] | alpha=1.5", "f16[7] f16[7]", "bf16[33] bf16[33]",
              "f64[9] f64[9]"},
};

}  // namespace kilter
