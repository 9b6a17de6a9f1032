#include "ops/support/elementwise.h"
#include "ops/support/pool_reference.h"

namespace kilter {
namespace {

void infer(InferContext& ctx) {
  check_types(Floats{}, ctx, 0);
  ctx.set(0, ctx.dtype(0), pooled_shape(ctx.shape(0), pool_window(ctx.node, ctx.shape(0))));
}

void reference(ReferenceContext& ctx) {
  pool_sums(
      ctx, pool_window(ctx.node, ctx.in(0).shape()), ctx.node.int_attr("count_include_pad", 0) != 0,
      [](double x) { return x; }, [](double sum, int64_t count) { return sum / static_cast<double>(count); });
}

}  // namespace

KILTER_OP(AveragePool){
    .name = "AveragePool",
    .family = Family::pool,
    .combiner = Combiner::mean,
    .attrs = {{"auto_pad", "string", "NOTSET"},
              {"ceil_mode", "int", "0"},
              {"count_include_pad", "int", "0"},
              {"dilations", "ints", ""},
              {"kernel_shape", "ints", "required"},
              {"pads", "ints", ""},
              {"strides", "ints", ""}},
    .summary =
        "Mean under a window that slides over x [N, C, d0, ...]. Divides by the number of elements inside x, or with "
        "count_include_pad=1 inside x and its declared padding; NaN if there are none.",
    .infer = infer,
    .reference = reference,
    .cases = {"f32[1,3,9,13] | kernel_shape=[3,3] strides=[2,2] pads=[1,1,1,1]",
              "f32[2,17,7,7] | kernel_shape=[2,2] strides=[2,2] count_include_pad=1 pads=[1,1,0,0]",
              "f32[1,33,10,9] | kernel_shape=[3,2] strides=[2,3] pads=[1,0,0,1] ceil_mode=1 count_include_pad=1",
              "f32[1,7,12,11] | kernel_shape=[3,3] dilations=[2,3]",
              "f32[1,4,15] | kernel_shape=[5] strides=[3] auto_pad=SAME_LOWER | 7",
              "f32[1,5,5,6,7] | kernel_shape=[2,3,2] strides=[1,2,3]"},
};

}  // namespace kilter
