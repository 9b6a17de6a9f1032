#include "ops/support/reduction.h"

namespace kilter {
namespace {

void reference(ReferenceContext& ctx) {
  reference_reduce_double(ctx, [type = ctx.in(0).dtype()](const std::vector<double>& x) {
    double total = 0;
    for (double v : x) total = in_range_of_sums(type, total + v);
    return std::log(total);
  });
}

std::vector<ValueId> expand(ExpandContext& ctx) {
  const DType type = ctx.type(0).dtype;
  const bool keepdims = ctx.node.int_attr("keepdims", 1) != 0;
  const ValueId sum = reduce_as(ctx, "ReduceSum", widened(ctx, ctx.in(0), true), keepdims);
  return {narrowed(ctx, ctx.add("Log", {sum}), type)};
}

}  // namespace

KILTER_OP(ReduceLogSum){
    .name = "ReduceLogSum",
    .family = Family::reference,
    .max_inputs = 2,
    .attrs = reduce_attrs(),
    .summary = "y = log of the sum of x over axes; -inf if empty; integers truncate toward zero.",
    .infer = infer_reduce<Numbers>,
    .reference = reference,
    .expand = expand,
    .shape_operands = {1},
    .cases =
        {"f32[2,3,5]:1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30 | axes=[1] | 11",
         "f64[3]:0.5,0.25,7 | axes=[-1] keepdims=0 | 11", "i32[7,3] i64[1]=-1", "f32[2,0,3] i64[1]=1", "u8[17]"},
};

}  // namespace kilter
