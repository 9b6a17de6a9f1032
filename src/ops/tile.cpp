#include "ops/support/iterate.h"
#include "ops/support/operands.h"
#include "ops/support/regions.h"

namespace kilter {
namespace {

void infer(InferContext& ctx) {
  const std::vector<int64_t> repeats = operand_ints(ctx.node, ctx.needed(1), "repeats");
  check_count(ctx.node, "repeats, one for every dimension", ctx.shape(0).size(), repeats.size());
  Shape shape = ctx.shape(0);
  for (size_t d = 0; d < shape.size(); ++d) shape[d] = checked_mul(ctx.node, shape[d], repeats[d]);
  set_same_dtype(ctx, std::move(shape));
}

void reference(ReferenceContext& ctx) {
  const Shape& shape = ctx.in(0).shape();
  const Shape strides = dense_strides(shape);
  int64_t to = 0;
  for_each_index(ctx.out().shape(), [&](std::span<const int64_t> index) {
    int64_t from = 0;
    for (size_t d = 0; d < index.size(); ++d) from += index[d] % shape[d] * strides[d];
    copy_element(ctx.in(0), from, ctx.out(), to++);
  });
}

/// Dimension d of the output is [repeats, extent], which gives one region of twice the rank.
std::optional<std::vector<CopyRegion>> regions(const OpView& view, int32_t) {
  const Shape& from = view.inputs[0].shape;
  const Shape& to = view.outputs[0].shape;
  if (elems(to) == 0) return std::vector<CopyRegion>{};
  const Shape in_strides = dense_strides(from);
  const Shape out_strides = dense_strides(to);
  CopyRegion region;
  for (size_t d = 0; d < from.size(); ++d) {
    region.extent.insert(region.extent.end(), {to[d] / from[d], from[d]});
    region.in_strides.insert(region.in_strides.end(), {0, in_strides[d]});
    region.out_strides.insert(region.out_strides.end(), {out_strides[d] * from[d], out_strides[d]});
  }
  return tidy({region});
}

}  // namespace

KILTER_OP(Tile){
    .name = "Tile",
    .since = 6,
    .family = Family::movement,
    .separable = true,
    .min_inputs = 2,
    .max_inputs = 2,
    .summary = "y = x repeated repeats[i] times (input 1) along every dimension i.",
    .infer = infer,
    .reference = reference,
    .regions = regions,
    .shape_operands = {1},
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"f32[2,3] i64[2]=2,3", "f32[1,7,1] i64[3]=17,1,3", "i64[3] i64[1]=0", "f16[2,1,5] i64[3]=1,33,1",
              "bool[1,3] i64[2]=4,2 | | 7", "f32[] i64[0]="},
};

}  // namespace kilter
