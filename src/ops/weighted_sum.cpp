#include "ops/support/weighted_sum.h"

#include "ops/support/elementwise.h"

namespace kilter {
namespace {

void reference(ReferenceContext& ctx) { store_doubles(ctx.out(), weighted_sums(ctx)); }

std::optional<Expr> scalar(const OpView& op, std::span<const Expr> in) {
  return cast(DType::f32, scalar_weighted_sum(op, in));
}

}  // namespace

KILTER_OP(WeightedSum){
    .name = "WeightedSum",
    .domain = "kilter",
    .family = Family::map,
    .min_inputs = 3,
    .max_inputs = -1,
    .summary =
        "y = x_0 * m_0 + x_1 * m_1 + ... + c, evaluated in f64 and rounded to f32; x_i are f32 or i32, m_i and c f64, "
        "which broadcast. Created by the pass integer_arithmetic.",
    .infer = infer_weighted_sum,
    .reference = reference,
    .scalar = scalar,
    .cases = {"i32[2,3,5] f64[3,1] f64[3,1]", "f32[2,3,5] f64[]=0.25 f32[2,3,5] f64[]=1 f64[]=0",
              "i32[17] f64[17] f64[]"},
};

}  // namespace kilter
