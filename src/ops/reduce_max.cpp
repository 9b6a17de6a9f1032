#include "ops/support/reduction.h"

namespace kilter {
namespace {

void reference(ReferenceContext& ctx) {
  reference_reduce<NumbersAndBool>(ctx, []<class T>() {
    return fold_of(least<T>(), [](auto best, auto x) { return x > best || is_nan(x) ? x : best; });
  });
}

}  // namespace

KILTER_OP(ReduceMax){
    .name = "ReduceMax",
    .family = Family::reduce,
    .combiner = Combiner::max,
    .max_inputs = 2,
    .attrs = reduce_attrs(),
    .summary = "y = maximum of x over axes; a NaN wins; if empty, the least value of the type (-inf, false).",
    .infer = infer_reduce<NumbersAndBool>,
    .reference = reference,
    .shape_operands = {1},
    .cases = {"f32[2,3,5] | axes=[1] | 11", "f32[3,7,17] i64[1]=-1 | keepdims=0", "f32[33]", "f32[3,5,19,3] i64[2]=1,3",
              "f64[2,17,3] | axes=[0,2] keepdims=0 | 11", "f32[4,5] | noop_with_empty_axes=1", "f16[3,33] i64[1]=1",
              "f32[2,0,3] i64[1]=1", "i32[5,7] i64[2]=0,-1", "bool[4,3] i64[1]=1", "u8[3,9] | axes=[-1] | 11",
              "f32[2,3]:1,nan,2,3,4,5 | axes=[1] | 11"},
};

}  // namespace kilter
