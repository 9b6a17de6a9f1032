#include "ops/support/elementwise.h"
#include "ops/support/scalar.h"

namespace kilter {
namespace {

void reference(ReferenceContext& ctx) {
  reference_compare<Numbers>(ctx, [](auto a, auto b) { return a < b; });
}

std::optional<Expr> scalar(const OpView& op, std::span<const Expr> in) {
  return scalar_binary(op, in, [](const Expr& a, const Expr& b) { return binary(Op::lt, a, b); });
}

}  // namespace

KILTER_OP(Less){
    .name = "Less",
    .since = 7,
    .family = Family::map,
    .min_inputs = 2,
    .max_inputs = 2,
    .summary = "c = a < b as booleans, broadcast; false where an operand is NaN.",
    .infer = infer_compare_of<Numbers>,
    .reference = reference,
    .scalar = scalar,
    .zero_preserving = true,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"f32[2,3,5] f32[2,3,5]", "f32[17] f32[1]", "f32[3,1] f32[1,4]", "f16[7] f16[7]", "f64[33] f64[33]",
              "f32[4]:nan,1,inf,0 f32[4]=nan,nan,inf,-0.0", "i8[9] i8[9]", "u64[2]:18446744073709551615,1 u64[1]=1",
              "i64[5] i64[]"},
};

}  // namespace kilter
