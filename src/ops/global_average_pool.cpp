#include "ops/support/elementwise.h"
#include "ops/support/pool_reference.h"

namespace kilter {
namespace {

void infer(InferContext& ctx) {
  check_types(Floats{}, ctx, 0);
  ctx.set(0, ctx.dtype(0), pooled_shape(ctx.shape(0), global_window(ctx.node, ctx.shape(0))));
}

void reference(ReferenceContext& ctx) {
  pool_sums(
      ctx, global_window(ctx.node, ctx.in(0).shape()), false, [](double x) { return x; },
      [](double sum, int64_t count) { return sum / static_cast<double>(count); });
}

}  // namespace

KILTER_OP(GlobalAveragePool){
    .name = "GlobalAveragePool",
    .family = Family::pool,
    .summary = "Mean over all spatial axes of x [N, C, d0, ...]: y [N, C, 1, ...].",
    .infer = infer,
    .reference = reference,
    .cases = {"f32[1,17,7,7]", "f32[2,64,9,5]", "f32[1,3,13]", "f32[1,33,3,4,5]"},
};

}  // namespace kilter
