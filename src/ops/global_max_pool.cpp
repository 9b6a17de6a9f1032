#include <cmath>
#include <limits>

#include "ops/support/elementwise.h"
#include "ops/support/pool_reference.h"

namespace kilter {
namespace {

void infer(InferContext& ctx) {
  check_types(Floats{}, ctx, 0);
  ctx.set(0, ctx.dtype(0), pooled_shape(ctx.shape(0), global_window(ctx.node, ctx.shape(0))));
}

void reference(ReferenceContext& ctx) {
  const std::vector<double> x = load_doubles(ctx.in(0));
  const int64_t plane = global_window(ctx.node, ctx.in(0).shape()).in_elems();
  std::vector<double> y(static_cast<size_t>(ctx.out().elems()), -std::numeric_limits<double>::infinity());
  for (size_t i = 0; i < x.size(); ++i) {
    double& best = y[i / static_cast<size_t>(plane)];
    if (x[i] > best || std::isnan(x[i])) best = x[i];
  }
  store_doubles(ctx.out(), y);
}

}  // namespace

KILTER_OP(GlobalMaxPool){
    .name = "GlobalMaxPool",
    .family = Family::pool,
    .summary = "Largest element over all spatial axes of x [N, C, d0, ...], NaN where there is one: y [N, C, 1, ...].",
    .infer = infer,
    .reference = reference,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"f32[1,17,7,7]", "f32[2,64,9,5]", "f32[1,3,13]", "f32[1,33,3,4,5]"},
};

}  // namespace kilter
