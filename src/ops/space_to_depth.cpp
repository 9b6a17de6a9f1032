#include "ops/support/depth_space.h"
#include "ops/support/iterate.h"

namespace kilter {
namespace {

void infer(InferContext& ctx) {
  check_image(ctx);
  const int64_t b = block_of(ctx.node);
  const Shape& s = ctx.shape(0);
  if (s[2] % b != 0 || s[3] % b != 0) {
    ctx.error(fmt::format("an image of {} by {} is not a multiple of blocksize {}", s[2], s[3], b));
  }
  set_same_dtype(ctx, {s[0], checked_mul(ctx.node, s[1], checked_mul(ctx.node, b, b)), s[2] / b, s[3] / b});
}

void reference(ReferenceContext& ctx) {
  const DepthSpace walk = depth_space(ctx.node, ctx.out().shape(), ctx.in(0).shape());
  copy_strided(ctx.in(0), 0, walk.wide, ctx.out(), 0, walk.deep, walk.extent);
}

std::optional<std::vector<CopyRegion>> regions(const OpView& view, int32_t) {
  const DepthSpace walk = depth_space(view.node, view.outputs[0].shape, view.inputs[0].shape);
  CopyRegion region = whole_region(0, walk.extent, walk.wide);
  region.out_strides = walk.deep;
  return tidy({region});
}

}  // namespace

KILTER_OP(SpaceToDepth){
    .name = "SpaceToDepth",
    .family = Family::movement,
    .attrs = {{"blocksize", "int", "required"}, {"mode", "string", "DCR"}},
    .summary =
        "y[n, (i * b + j) * C + c, h, w] (DCR) or y[n, (c * b + i) * b + j, h, w] (CRD) = x[n, c, h * b + i, w * b + "
        "j].",
    .infer = infer,
    .reference = reference,
    .regions = regions,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"f32[1,2,4,6] | blocksize=2", "f32[2,3,7,14] | blocksize=7", "i8[1,1,6,3] | blocksize=3 | 7",
              "f16[1,4,2,34] | blocksize=2", "f32[1,2,4,6] | blocksize=2 mode=CRD | 28"},
};

}  // namespace kilter
