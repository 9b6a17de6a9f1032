#include "ops/support/elementwise.h"
#include "ops/support/formulas.h"
#include "ops/support/scalar.h"

namespace kilter {
namespace {

void reference(ReferenceContext& ctx) {
  reference_variadic<Numbers>(ctx, [](auto a, auto b) { return is_nan(a) || a < b ? a : b; });
}

std::optional<Expr> scalar(const OpView& op, std::span<const Expr> in) { return extreme_of(op, in, Op::min); }

}  // namespace

KILTER_OP(Min){
    .name = "Min",
    .since = 6,
    .family = Family::map,
    .combiner = Combiner::min,
    .min_inputs = 1,
    .max_inputs = -1,
    .summary = "y = the least of all inputs, broadcast; NaN where one of them is NaN.",
    .infer = infer_broadcast_of<Numbers>,
    .reference = reference,
    .scalar = scalar,
    .zero_preserving = true,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"f32[2,3,5] f32[2,3,5]", "f32[7]", "f32[17] f32[1] f32[17]", "f32[3,1] f32[1,4]",
              "f32[4]:nan,1,2,nan f32[4]=1,nan,5,nan", "f32[5] f32[]=0", "f32[]=0.5 f32[5]", "f16[7] f16[7]",
              "i8[33] i8[33]", "u64[2]:18446744073709551615,1 u64[1]=2", "f64[9] f64[9]"},
};

}  // namespace kilter
