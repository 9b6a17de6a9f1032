#include "ops/support/depth_space.h"
#include "ops/support/iterate.h"

namespace kilter {
namespace {

void infer(InferContext& ctx) {
  check_image(ctx);
  const int64_t b = block_of(ctx.node);
  const Shape& s = ctx.shape(0);
  const int64_t area = checked_mul(ctx.node, b, b);
  if (s[1] % area != 0) ctx.error(fmt::format("{} channels are not a multiple of blocksize squared, {}", s[1], area));
  set_same_dtype(ctx, {s[0], s[1] / area, checked_mul(ctx.node, s[2], b), checked_mul(ctx.node, s[3], b)});
}

void reference(ReferenceContext& ctx) {
  const DepthSpace walk = depth_space(ctx.node, ctx.in(0).shape(), ctx.out().shape());
  copy_strided(ctx.in(0), 0, walk.deep, ctx.out(), 0, walk.wide, walk.extent);
}

std::optional<std::vector<CopyRegion>> regions(const OpView& view, int32_t) {
  const DepthSpace walk = depth_space(view.node, view.inputs[0].shape, view.outputs[0].shape);
  CopyRegion region = whole_region(0, walk.extent, walk.deep);
  region.out_strides = walk.wide;
  return tidy({region});
}

}  // namespace

KILTER_OP(DepthToSpace){
    .name = "DepthToSpace",
    .family = Family::movement,
    .attrs = {{"blocksize", "int", "required"}, {"mode", "string", "DCR"}},
    .summary =
        "y[n, c, h * b + i, w * b + j] = x[n, (i * b + j) * C + c, h, w] (DCR) or x[n, (c * b + i) * b + j, h, w] "
        "(CRD).",
    .infer = infer,
    .reference = reference,
    .regions = regions,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"f32[1,8,2,3] | blocksize=2", "f32[2,8,7,1] | blocksize=2 mode=CRD",
              "i8[1,9,2,5] | blocksize=3 mode=DCR | 11", "f16[1,4,1,17] | blocksize=2 | 7"},
};

}  // namespace kilter
