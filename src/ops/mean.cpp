#include "ops/support/elementwise.h"
#include "ops/support/scalar.h"

namespace kilter {
namespace {

void reference(ReferenceContext& ctx) {
  reference_variadic<Floats>(
      ctx, [](auto a, auto b) { return a + b; },
      [](auto total, int64_t n) { return total / static_cast<decltype(total)>(n); });
}

std::optional<Expr> scalar(const OpView& op, std::span<const Expr> in) {
  Expr total = wide(in[0]);
  for (const Expr& x : in.subspan(1)) total = total + wide(x);
  return cast(op.outputs[0].dtype, total / like(total, static_cast<double>(in.size())));
}

}  // namespace

KILTER_OP(Mean){
    .name = "Mean",
    .since = 6,
    .family = Family::map,
    .combiner = Combiner::mean,
    .min_inputs = 1,
    .max_inputs = -1,
    .summary = "y = arithmetic mean of all inputs, broadcast.",
    .infer = infer_broadcast_of<Floats>,
    .reference = reference,
    .scalar = scalar,
    .zero_preserving = true,
    .cases = {"f32[2,3,5] f32[2,3,5]", "f32[7]", "f32[17] f32[1] f32[17]", "f32[3,1] f32[1,4]", "f16[7] f16[7] f16[7]",
              "bf16[33] bf16[33]", "f64[9] f64[9]"},
};

}  // namespace kilter
