#include "ops/support/cumulative.h"

namespace kilter {
namespace {

void reference(ReferenceContext& ctx) {
  reference_cumulative(ctx, 0, [](auto total, auto x) { return wrap_add(total, x); });
}

}  // namespace

KILTER_OP(CumSum){
    .name = "CumSum",
    .since = 11,
    .min_inputs = 2,
    .max_inputs = 2,
    .attrs = {{"exclusive", "int", "0"}, {"reverse", "int", "0"}},
    .summary =
        "y[k] = sum of x[0] to x[k] along the axis that input 1 gives; without x[k] when exclusive, from the end when "
        "reverse.",
    .infer = infer_cumulative,
    .reference = reference,
    .cases = {"f32[2,7] i32[]=1", "f32[3,17,2] i64[]=-2 | exclusive=1", "f64[33] i32[1]=0 | reverse=1",
              "i32[5,3] i64[]:0 | exclusive=1 reverse=1", "f16[7] i32[]=0"},
};

}  // namespace kilter
