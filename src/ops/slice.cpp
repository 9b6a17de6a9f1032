#include <algorithm>
#include <limits>

#include "ops/support/iterate.h"
#include "ops/support/operands.h"
#include "ops/support/regions.h"

namespace kilter {
namespace {

/// For each dimension of the input: first element, step and count.
struct Window {
  Shape first;
  Shape step;
  Shape count;
};

/// Returns the number of elements start, start + step, ... before `end`. `start` and `end` are already clamped to the
/// dimension.
int64_t count_between(int64_t start, int64_t end, int64_t step) {
  if (step > 0) return start < end ? 1 + (end - start - 1) / step : 0;
  return start > end ? 1 + (start - end - 1) / -step : 0;
}

template <class Context>
Window window_of(const Context& ctx) {
  const Node& node = ctx.node;
  const Shape& shape = shape_of(ctx, 0);
  const auto starts = ints_of(ctx, 1, "starts");
  const auto ends = ints_of(ctx, 2, "ends");
  if (!starts || !ends)
    node_error(node, "starts and ends are missing; give them as inputs 1 and 2 (attributes before opset 10)");
  const auto given = ints_of(ctx, 3, "axes");
  const std::vector<int64_t> axes = normal_axes(node, given ? *given : all_axes(static_cast<int64_t>(starts->size())),
                                                static_cast<int64_t>(shape.size()));
  const auto steps = ints_of(ctx, 4, "steps").value_or(std::vector<int64_t>(starts->size(), 1));
  check_count(node, "starts, one for every axis", axes.size(), starts->size());
  check_count(node, "ends, one for every axis", axes.size(), ends->size());
  check_count(node, "steps, one for every axis", axes.size(), steps.size());
  Window window{Shape(shape.size(), 0), Shape(shape.size(), 1), shape};
  for (size_t k = 0; k < axes.size(); ++k) {
    const auto d = static_cast<size_t>(axes[k]);
    const int64_t n = shape[d];
    const int64_t step = std::max(steps[k], -std::numeric_limits<int64_t>::max());
    if (step == 0) node_error(node, fmt::format("the step for axis {} is 0; a step must not be 0", d));
    const auto absolute = [n](int64_t at) { return at < 0 ? at + n : at; };
    const int64_t low = step > 0 ? 0 : -1;
    const int64_t high = step > 0 ? n : n - 1;
    const int64_t start = std::clamp(absolute((*starts)[k]), std::min(int64_t{0}, high), std::max(int64_t{0}, high));
    const int64_t end = std::clamp(absolute((*ends)[k]), low, std::max(low, high));
    window.count[d] = n == 0 ? 0 : count_between(start, end, step);
    window.first[d] = window.count[d] == 0 ? 0 : start;
    window.step[d] = step;
  }
  return window;
}

void infer(InferContext& ctx) { set_same_dtype(ctx, window_of(ctx).count); }

/// Returns the strides with which the window steps through the input, and the offset of its first element.
std::pair<Shape, int64_t> walk(const Window& window, const Shape& shape) {
  Shape strides = dense_strides(shape);
  int64_t offset = 0;
  for (size_t d = 0; d < strides.size(); ++d) {
    offset += window.first[d] * strides[d];
    strides[d] = window.count[d] > 1 ? strides[d] * window.step[d] : 0;
  }
  return {strides, offset};
}

void reference(ReferenceContext& ctx) {
  const auto [strides, offset] = walk(window_of(ctx), ctx.in(0).shape());
  const Shape& shape = ctx.out().shape();
  copy_strided(ctx.in(0), offset, strides, ctx.out(), 0, dense_strides(shape), shape);
}

std::optional<std::vector<CopyRegion>> regions(const OpView& view, int32_t) {
  if (!known(view, 1)) return std::nullopt;
  const auto [strides, offset] = walk(window_of(view), view.inputs[0].shape);
  return tidy({whole_region(0, view.outputs[0].shape, strides, offset)});
}

}  // namespace

KILTER_OP(Slice){
    .name = "Slice",
    .family = Family::movement,
    .movement = Movement::slice,
    .separable = true,
    .max_inputs = 5,
    .attrs = {{"starts", "ints", ""}, {"ends", "ints", ""}, {"axes", "ints", ""}},
    .summary =
        "y = x[starts : ends : steps] along axes, clamped as in Python; inputs 1 to 4 (attributes before opset 10).",
    .infer = infer,
    .reference = reference,
    .regions = regions,
    .shape_operands = {1, 2, 3, 4},
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"f32[7,17] i64[2]=1,2 i64[2]=-1,1000",
              "f32[7,17] i64[1]=-1 i64[1]=-9223372036854775808 i64[1]=1 i64[1]=-3",
              "i64[3,5,7] i32[1]=0 i32[1]=3 i32[1]=-1 i32[1]=2", "f32[5,33] | starts=[1,0] ends=[4,-1] | 9",
              "f16[4,4] i64[1]=3 i64[1]=1 i64[1]=0", "f32[3,4] i64[2]=2,3 i64[2]=-100,-100 i64[2]=0,1 i64[2]=-1,-2"},
};

}  // namespace kilter
