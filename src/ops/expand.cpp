#include <array>

#include "ops/support/iterate.h"
#include "ops/support/operands.h"
#include "ops/support/regions.h"

namespace kilter {
namespace {

void infer(InferContext& ctx) {
  const Shape wanted = operand_ints(ctx.node, ctx.needed(1), "shape");
  check_shape(ctx.node, wanted);
  const std::array<Shape, 2> shapes = {ctx.shape(0), wanted};
  std::optional<Shape> shape = broadcast_shapes(shapes);
  if (!shape) {
    ctx.error(fmt::format("input {} does not broadcast with shape {}: aligned at the end, extents must be equal or 1",
                          text(ctx.shape(0)), text(wanted)));
  }
  set_same_dtype(ctx, *std::move(shape));
}

void reference(ReferenceContext& ctx) {
  const Shape& shape = ctx.out().shape();
  copy_strided(ctx.in(0), 0, broadcast_strides(ctx.in(0).shape(), shape), ctx.out(), 0, dense_strides(shape), shape);
}

std::optional<std::vector<CopyRegion>> regions(const OpView& view, int32_t) {
  const Shape& shape = view.outputs[0].shape;
  return tidy({whole_region(0, shape, broadcast_strides(view.inputs[0].shape, shape))});
}

}  // namespace

KILTER_OP(Expand){
    .name = "Expand",
    .since = 8,
    .family = Family::movement,
    .min_inputs = 2,
    .max_inputs = 2,
    .summary = "y = x broadcast with the shape of input 1, both ways.",
    .infer = infer,
    .reference = reference,
    .regions = regions,
    .shape_operands = {1},
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"f32[3,1] i64[3]=2,1,7", "f32[3,1] i64[2]=3,4", "i64[1] i64[1]=17", "f16[2,1,5] i64[1]=1",
              "bool[1,3] i64[2]=0,3", "f32[] i64[2]=3,3 | | 8"},
};

}  // namespace kilter
