// StridedView: elements of a tensor at constant strides. Represents a chain of reshapes, transposes and slices.

#include <algorithm>

#include "ops/support/iterate.h"
#include "ops/support/operands.h"
#include "ops/support/regions.h"

namespace kilter {
namespace {

struct Window {
  int64_t offset = 0;
  Shape shape, strides;
};

Window window_of(const Node& node) {
  Window w{node.int_attr("offset", 0), node.ints_attr("shape"), node.ints_attr("strides")};
  check_count(node, "strides, one for each dimension", w.shape.size(), w.strides.size());
  return w;
}

void infer(InferContext& ctx) {
  const Window w = window_of(ctx.node);
  int64_t last = w.offset;
  for (size_t d = 0; d < w.shape.size(); ++d) {
    if (w.shape[d] < 0 || w.strides[d] < 0) {
      ctx.error(
          fmt::format("dimension {} has extent {} and stride {}, expected 0 or more", d, w.shape[d], w.strides[d]));
    }
    last = checked_add(ctx.node, last, checked_mul(ctx.node, std::max<int64_t>(w.shape[d] - 1, 0), w.strides[d]));
  }
  const bool empty = std::ranges::count(w.shape, 0) > 0;
  if (w.offset < 0 || (!empty && last >= elems(ctx.shape(0)))) {
    ctx.error(fmt::format("reads elements {} to {} of a tensor of {}", w.offset, last, elems(ctx.shape(0))));
  }
  ctx.set(0, ctx.dtype(0), w.shape);
}

void reference(ReferenceContext& ctx) {
  const Window w = window_of(ctx.node);
  copy_strided(ctx.in(0), w.offset, w.strides, ctx.out(), 0, dense_strides(w.shape), w.shape);
}

std::optional<std::vector<CopyRegion>> regions(const OpView& view, int32_t) {
  const Window w = window_of(view.node);
  return tidy({whole_region(0, w.shape, w.strides, w.offset)});
}

}  // namespace

KILTER_OP(StridedView){
    .name = "StridedView",
    .domain = "kilter",
    .family = Family::movement,
    .attrs = {{"offset", "int", "0"}, {"shape", "ints", "required"}, {"strides", "ints", "required"}},
    .summary = "y[i] = element offset + i . strides of x, counted in row-major order; created by passes.",
    .infer = infer,
    .reference = reference,
    .regions = regions,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"f32[2,7,18] | offset=6 shape=[2,2,7,3] strides=[126,3,18,1]", "f32[5,17] | shape=[17,5] strides=[1,17]",
              "i64[9] | offset=8 shape=[3,1] strides=[0,5]", "f32[2,0,3] | shape=[3,2,0] strides=[1,3,0]",
              "f16[4,6] | offset=1 shape=[4,3] strides=[6,2]"},
};

}  // namespace kilter
