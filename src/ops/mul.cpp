#include "ops/support/elementwise.h"
#include "ops/support/scalar.h"

namespace kilter {
namespace {

void reference(ReferenceContext& ctx) {
  reference_binary<Numbers>(ctx, [](auto a, auto b) { return wrap_mul(a, b); });
}

std::optional<Expr> scalar(const OpView& op, std::span<const Expr> in) {
  return scalar_binary(op, in, [](const Expr& a, const Expr& b) { return a * b; });
}

}  // namespace

KILTER_OP(Mul){
    .name = "Mul",
    .since = 7,
    .family = Family::map,
    .combiner = Combiner::product,
    .absorbs_zero = true,
    .min_inputs = 2,
    .max_inputs = 2,
    .summary = "c = a * b, broadcast; integers wrap.",
    .infer = infer_broadcast_of<Numbers>,
    .reference = reference,
    .scalar = scalar,
    .zero_preserving = true,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"f32[2,3,5] f32[2,3,5]", "f32[2,3,5] f32[5]", "f32[4,1,5] f32[3,1]", "f32[1,16,7,7] f32[16,1,1]",
              "f32[] f32[17]", "f16[33] f16[33]", "bf16[6] bf16[1]", "f64[2,3] f64[]", "i8[3]:-128,127,5 i8[1]=3",
              "u16[4] u16[4]", "i64[2,2] i64[2]"},
};

}  // namespace kilter
