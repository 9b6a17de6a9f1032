#include "ops/support/reduction.h"

namespace kilter {
namespace {

void reference(ReferenceContext& ctx) {
  reference_reduce<Numbers>(
      ctx, []<class T>() { return fold_of(Accumulator<T>{1}, [](auto total, auto x) { return wrap_mul(total, x); }); });
}

}  // namespace

KILTER_OP(ReduceProd){
    .name = "ReduceProd",
    .family = Family::reduce,
    .combiner = Combiner::product,
    .max_inputs = 2,
    .attrs = reduce_attrs(),
    .summary = "y = product of x over axes; integers wrap, the empty product is 1.",
    .infer = infer_reduce<Numbers>,
    .reference = reference,
    .shape_operands = {1},
    .cases = {"f32[2,3,5] | axes=[1] | 11", "f32[3,7,17] i64[1]=-1 | keepdims=0", "f32[33]",
              "f64[2,17,3] | axes=[0,2] keepdims=0 | 11", "f32[4,5] | noop_with_empty_axes=1", "f16[3,33] i64[1]=1",
              "f32[2,0,3] i64[1]=1", "i32[5,7] i64[2]=0,-1"},
};

}  // namespace kilter
