#include "ops/support/reduction.h"

namespace kilter {
namespace {

void reference(ReferenceContext& ctx) {
  reference_reduce<Numbers>(
      ctx, []<class T>() { return fold_of(Accumulator<T>{0}, [](auto total, auto x) { return added<T>(total, x); }); });
}

}  // namespace

KILTER_OP(ReduceSum){
    .name = "ReduceSum",
    .family = Family::reduce,
    .combiner = Combiner::sum,
    .max_inputs = 2,
    .attrs = reduce_attrs(),
    .summary = "y = sum of x over axes; integers wrap, the empty sum is 0.",
    .infer = infer_reduce<Numbers>,
    .reference = reference,
    .shape_operands = {1},
    .cases = {"f32[2,3,5] | axes=[1] | 11", "f32[3,7,17] i64[1]=-1 | keepdims=0", "f32[33]", "f32[3,43,2] i64[1]=2",
              "f64[2,17,3] | axes=[0,2] keepdims=0 | 11", "f32[4,5] | noop_with_empty_axes=1", "f16[3,33] i64[1]=1",
              "f32[2,0,3] i64[1]=1", "i32[5,7] i64[2]=0,-1"},
};

}  // namespace kilter
