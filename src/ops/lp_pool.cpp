#include <cmath>

#include "ops/support/elementwise.h"
#include "ops/support/pool_reference.h"

namespace kilter {
namespace {

double exponent(const Node& node) {
  const int64_t p = node.int_attr("p", 2);
  if (p < 1) node_error(node, fmt::format("attribute p is {}, expected 1 or more", p));
  return static_cast<double>(p);
}

void infer(InferContext& ctx) {
  check_types(Floats{}, ctx, 0);
  exponent(ctx.node);
  ctx.set(0, ctx.dtype(0), pooled_shape(ctx.shape(0), pool_window(ctx.node, ctx.shape(0))));
}

void infer_global(InferContext& ctx) {
  check_types(Floats{}, ctx, 0);
  exponent(ctx.node);
  ctx.set(0, ctx.dtype(0), pooled_shape(ctx.shape(0), global_window(ctx.node, ctx.shape(0))));
}

void norms(ReferenceContext& ctx, const Window& window) {
  const double p = exponent(ctx.node);
  pool_sums(
      ctx, window, false, [p](double x) { return std::pow(std::abs(x), p); },
      [p](double sum, int64_t) { return std::pow(sum, 1.0 / p); });
}

void reference(ReferenceContext& ctx) { norms(ctx, pool_window(ctx.node, ctx.in(0).shape())); }
void reference_global(ReferenceContext& ctx) { norms(ctx, global_window(ctx.node, ctx.in(0).shape())); }

}  // namespace

KILTER_OP(LpPool){
    .name = "LpPool",
    .since = 2,
    .family = Family::pool,
    .attrs = {{"auto_pad", "string", "NOTSET"},
              {"ceil_mode", "int", "0"},
              {"dilations", "ints", ""},
              {"kernel_shape", "ints", "required"},
              {"p", "int", "2"},
              {"pads", "ints", ""},
              {"strides", "ints", ""}},
    .summary = "(sum |x|^p)^(1/p) under a window that slides over x [N, C, d0, ...].",
    .infer = infer,
    .reference = reference,
    // Powers computed by exp and log lose a few units in the last place.
    .tolerance = {.rtol = 1e-4, .atol = 1e-6},
    .cases = {"f32[1,3,9,13] | kernel_shape=[3,3] strides=[2,2] pads=[1,1,1,1]",
              "f32[2,17,7,7] | kernel_shape=[2,2] strides=[2,2] p=3",
              "f32[1,7,12,11] | kernel_shape=[3,3] dilations=[2,3] p=1",
              "f32[1,4,15] | kernel_shape=[5] strides=[3] auto_pad=SAME_UPPER | 11"},
};

KILTER_OP(GlobalLpPool){
    .name = "GlobalLpPool",
    .since = 2,
    .family = Family::pool,
    .attrs = {{"p", "int", "2"}},
    .summary = "(sum |x|^p)^(1/p) over all spatial axes of x [N, C, d0, ...]: y [N, C, 1, ...].",
    .infer = infer_global,
    .reference = reference_global,
    .tolerance = {.rtol = 1e-4, .atol = 1e-6},
    .cases = {"f32[2,17,7,7]", "f32[1,3,5] | p=3", "f32[1,33,3,4,5] | p=1"},
};

}  // namespace kilter
