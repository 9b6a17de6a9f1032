#include "ops/support/arg_reduce.h"

namespace kilter {
namespace {

void reference(ReferenceContext& ctx) { reference_arg(ctx, true); }

}  // namespace

KILTER_OP(ArgMax){
    .name = "ArgMax",
    .family = Family::arg,
    .combiner = Combiner::max,
    .attrs = {{"axis", "int", "0"}, {"keepdims", "int", "1"}, {"select_last_index", "int", "0"}},
    .summary =
        "y = the i64 index of the greatest element of x along axis; of equal ones the first, or with select_last_index "
        "the last.",
    .infer = infer_arg,
    .reference = reference,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"f32[2,7,5] | axis=1", "f32[3,17] | axis=-1 keepdims=0", "i32[6]:1,3,3,0,0,2 | select_last_index=1",
              "f16[33,2]", "f32[4]:1,nan,3,nan", "u8[7,1] | axis=1 keepdims=0 | 7"},
};

}  // namespace kilter
