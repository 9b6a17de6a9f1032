#include "ops/support/iterate.h"
#include "ops/support/operands.h"
#include "ops/support/regions.h"

namespace kilter {
namespace {

int64_t axis_of(const Node& node, const Shape& shape) {
  return normal_axis(node, node.int_attr("axis", 1), static_cast<int64_t>(shape.size()));
}

void infer(InferContext& ctx) {
  Shape shape = ctx.shape(0);
  const auto axis = static_cast<size_t>(axis_of(ctx.node, shape));
  for (size_t i = 1; i < ctx.input_count(); ++i) {
    Shape other = ctx.shape(i);
    if (ctx.dtype(i) != ctx.dtype(0)) {
      ctx.error(fmt::format("input {} has element type {}, expected {} to match input 0", i, name(ctx.dtype(i)),
                            name(ctx.dtype(0))));
    }
    const int64_t extent = other.size() == shape.size() ? other[axis] : 0;
    if (other.size() == shape.size()) other[axis] = shape[axis];
    if (other != shape) {
      ctx.error(
          fmt::format("input {} of shape {} does not fit input 0 of shape {}: all dimensions except axis {} must agree",
                      i, text(ctx.shape(i)), text(ctx.shape(0)), axis));
    }
    shape[axis] = checked_add(ctx.node, shape[axis], extent);
    other[axis] = shape[axis];
  }
  set_same_dtype(ctx, std::move(shape));
}

void reference(ReferenceContext& ctx) {
  const Shape strides = dense_strides(ctx.out().shape());
  const auto axis = static_cast<size_t>(axis_of(ctx.node, ctx.out().shape()));
  int64_t at = 0;
  for (const Tensor& in : ctx.inputs) {
    copy_strided(in, 0, dense_strides(in.shape()), ctx.out(), at, strides, in.shape());
    at += in.shape()[axis] * strides[axis];
  }
}

std::optional<std::vector<CopyRegion>> regions(const OpView& view, int32_t) {
  const Shape strides = dense_strides(view.outputs[0].shape);
  const auto axis = static_cast<size_t>(axis_of(view.node, view.outputs[0].shape));
  std::vector<CopyRegion> all;
  int64_t at = 0;
  for (size_t i = 0; i < view.inputs.size(); ++i) {
    const Shape& shape = view.inputs[i].shape;
    CopyRegion region = whole_region(static_cast<int32_t>(i), shape, dense_strides(shape));
    region.out_offset = at;
    region.out_strides = strides;
    all.push_back(region);
    at += shape[axis] * strides[axis];
  }
  return tidy(all);
}

}  // namespace

KILTER_OP(Concat){
    .name = "Concat",
    .since = 4,
    .family = Family::movement,
    .movement = Movement::concat,
    .max_inputs = -1,
    .attrs = {{"axis", "int", "required"}},
    .summary = "y = the inputs one after the other along axis; all other dimensions agree.",
    .infer = infer,
    .reference = reference,
    .regions = regions,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"f32[1,16,7,7] f32[1,17,7,7] f32[1,1,7,7] | axis=1", "f32[2,3] f32[2,5] | axis=-1",
              "i64[1] i64[2] i64[0] | axis=0", "f16[2,3,4] f16[5,3,4] | axis=0 | 7", "bool[33] | axis=0",
              "u8[3,7,2] u8[3,1,2] | axis=1"},
};

}  // namespace kilter
