#include "ops/support/iterate.h"
#include "ops/support/operands.h"
#include "ops/support/regions.h"

namespace kilter {
namespace {

template <class Context>
Shape target_of(const Context& ctx, const Tensor& wanted) {
  Shape shape = shape_of(ctx, 0);
  const auto rank = static_cast<int64_t>(shape.size());
  const std::vector<int64_t> axes = normal_axes(ctx.node, ctx.node.ints_attr("axes", all_axes(rank)), rank);
  const std::vector<int64_t> sizes = operand_ints(ctx.node, wanted, "shape");
  check_count(ctx.node, "sizes in shape, one for every axis", axes.size(), sizes.size());
  for (size_t k = 0; k < axes.size(); ++k) shape[static_cast<size_t>(axes[k])] = sizes[k];
  return shape;
}

void infer(InferContext& ctx) { set_same_dtype(ctx, target_of(ctx, ctx.needed(1))); }

/// If the extents differ by an odd number, the extra element is removed or added at the end.
std::vector<IndexMap> maps_of(const Shape& from, const Shape& to) {
  std::vector<IndexMap> maps;
  for (size_t d = 0; d < from.size(); ++d) {
    const int64_t shift = to[d] <= from[d] ? (from[d] - to[d]) / 2 : -((to[d] - from[d]) / 2);
    IndexMap map(static_cast<size_t>(to[d]));
    for (size_t i = 0; i < map.size(); ++i) {
      const int64_t at = static_cast<int64_t>(i) + shift;
      map[i] = at >= 0 && at < from[d] ? at : kFill;
    }
    maps.push_back(std::move(map));
  }
  return maps;
}

void reference(ReferenceContext& ctx) {
  copy_mapped(ctx.in(0), ctx.out(), maps_of(ctx.in(0).shape(), ctx.out().shape()), {});
}

std::optional<std::vector<CopyRegion>> regions(const OpView& view, int32_t) {
  if (!is_arithmetic(view.inputs[0].dtype) || !mappable(view.outputs[0].shape)) return std::nullopt;
  const Shape& from = view.inputs[0].shape;
  return mapped_regions(from, maps_of(from, view.outputs[0].shape), 0, 0);
}

}  // namespace

KILTER_OP(CenterCropPad){
    .name = "CenterCropPad",
    .since = 18,
    .family = Family::movement,
    .separable = true,
    .min_inputs = 2,
    .max_inputs = 2,
    .attrs = {{"axes", "ints", ""}},
    .summary = "y = x cropped or padded with zeros around its centre to the sizes of input 1 along axes.",
    .infer = infer,
    .reference = reference,
    .regions = regions,
    .shape_operands = {1},
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"f32[20,10,3] i64[3]=10,7,3", "f32[10,7,3] i64[3]=20,10,3", "i64[33,17] i64[1]=8 | axes=[-1]",
              "f16[7,1,5] i64[2]=4,9 | axes=[0,2]"},
};

}  // namespace kilter
