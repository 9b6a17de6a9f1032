#include "ops/support/reduction.h"

namespace kilter {
namespace {

void reference(ReferenceContext& ctx) {
  reference_reduce_double(ctx, [](const std::vector<double>& x) {
    double top = -std::numeric_limits<double>::infinity();
    for (double v : x) top = v > top || std::isnan(v) ? v : top;
    if (std::isinf(top)) return top;
    double total = 0;
    for (double v : x) total += std::exp(v - top);
    return top + std::log(total);
  });
}

/// Returns the greatest finite value of the type in which the sum is computed.
double finite_limit(DType type) {
  return type == DType::f64 ? std::numeric_limits<double>::max() : double{std::numeric_limits<float>::max()};
}

// The maximum is clamped to finite values before it is subtracted, so inf - inf never occurs. A maximum of +inf then
// gives exp(inf) = inf, and one of -inf gives log(0) = -inf.

std::vector<ValueId> expand(ExpandContext& ctx) {
  const DType type = ctx.type(0).dtype;
  const bool keepdims = ctx.node.int_attr("keepdims", 1) != 0;
  const ValueId x = widened(ctx, ctx.in(0), true);
  const DType compute = ctx.builder.type(x).dtype;
  const double limit = finite_limit(compute);
  ValueId top = reduce_as(ctx, "ReduceMax", x, true);
  top = ctx.add("Min", {top, ctx.scalar(compute, limit)});
  top = ctx.add("Max", {top, ctx.scalar(compute, -limit)});
  const ValueId shifted = ctx.add("Exp", {ctx.add("Sub", {x, top})});
  const ValueId sum = ctx.add("Log", {reduce_as(ctx, "ReduceSum", shifted, keepdims)});
  if (!keepdims && ctx.builder.type(top).shape != ctx.builder.type(sum).shape) {
    const Shape shape = ctx.builder.type(sum).shape;
    top = ctx.add("Reshape", {top, ctx.builder.list(shape)}, {{"allowzero", int64_t{1}}});
  }
  return {narrowed(ctx, ctx.add("Add", {sum, top}), type)};
}

}  // namespace

KILTER_OP(ReduceLogSumExp){
    .name = "ReduceLogSumExp",
    .family = Family::reference,
    .max_inputs = 2,
    .attrs = reduce_attrs(),
    .summary =
        "y = log of the sum of exp(x) over axes, without overflow; -inf if empty; integers truncate toward zero.",
    .infer = infer_reduce<Numbers>,
    .reference = reference,
    .expand = expand,
    .shape_operands = {1},
    .cases = {"f32[2,3,5] | axes=[1] | 11", "f32[3,7,17] i64[1]=-1 | keepdims=0", "f32[3]:1000,-1000,999",
              "f32[2,2]:inf,1,-inf,-inf | axes=[1] keepdims=0 | 11", "f32[2,0,3] i64[1]=1", "i32[7,3] i64[1]=-1",
              "f64[33]", "f32[4,5] | noop_with_empty_axes=1"},
};

}  // namespace kilter
