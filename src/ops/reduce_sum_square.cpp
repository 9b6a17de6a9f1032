#include "ops/support/reduction.h"

namespace kilter {
namespace {

void reference(ReferenceContext& ctx) {
  reference_reduce<Numbers>(ctx, []<class T>() {
    using A = Accumulator<T>;
    return fold_of(A{0}, [](A total, A x) { return wrap_add(total, wrap_mul(x, x)); });
  });
}

std::vector<ValueId> expand(ExpandContext& ctx) {
  const DType type = ctx.type(0).dtype;
  const bool keepdims = ctx.node.int_attr("keepdims", 1) != 0;
  const ValueId x = widened(ctx, ctx.in(0), false);
  return {narrowed(ctx, reduce_as(ctx, "ReduceSum", ctx.add("Mul", {x, x}), keepdims), type)};
}

}  // namespace

KILTER_OP(ReduceSumSquare){
    .name = "ReduceSumSquare",
    .family = Family::reference,
    .max_inputs = 2,
    .attrs = reduce_attrs(),
    .summary = "y = sum of x * x over axes; integers wrap.",
    .infer = infer_reduce<Numbers>,
    .reference = reference,
    .expand = expand,
    .shape_operands = {1},
    .cases = {"f32[2,3,5] | axes=[1] | 11", "f32[3,7,17] i64[1]=-1 | keepdims=0", "f32[33]",
              "f64[2,17,3] | axes=[0,2] keepdims=0 | 11", "f32[4,5] | noop_with_empty_axes=1", "f16[3,33] i64[1]=1",
              "f32[2,0,3] i64[1]=1", "i32[5,7] i64[2]=0,-1"},
};

}  // namespace kilter
