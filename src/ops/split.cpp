#include <algorithm>
#include <numeric>
#include <utility>

#include "base/align.h"
#include "ops/support/iterate.h"
#include "ops/support/operands.h"
#include "ops/support/regions.h"

namespace kilter {
namespace {

int64_t axis_of(const Node& node, const Shape& shape) {
  return normal_axis(node, node.int_attr("axis", 0), static_cast<int64_t>(shape.size()));
}

/// Checks the outputs. A node may omit the last parts.
void check_outputs(const Node& node, size_t outputs, int64_t parts, std::string_view said_by) {
  if (std::cmp_less_equal(outputs, parts)) return;
  node_error(node, fmt::format("has {} outputs, expected {} or fewer according to {}", outputs, parts, said_by));
}

/// Returns the extents of the first `outputs` of `count` equal parts. Since opset 18 the last part may be smaller.
std::vector<int64_t> equal_parts(const Node& node, int64_t extent, int64_t count, size_t outputs) {
  if (count < 1) node_error(node, fmt::format("num_outputs is {}, expected 1 or more", count));
  if (node.opset < 18 && extent % count != 0) {
    node_error(node,
               fmt::format("{} elements do not split into {} equal parts; give their sizes in split", extent, count));
  }
  const int64_t part = ceil_div(extent, count);
  std::vector<int64_t> sizes;
  for (int64_t k = 0; std::cmp_less(k, outputs); ++k) sizes.push_back(std::clamp(extent - k * part, int64_t{0}, part));
  return sizes;
}

/// Returns the extents of the parts, at least of those that the node produces.
template <class Context>
std::vector<int64_t> sizes_of(const Context& ctx) {
  const Shape& shape = shape_of(ctx, 0);
  const int64_t extent = shape[static_cast<size_t>(axis_of(ctx.node, shape))];
  const size_t outputs = ctx.outputs.size();
  auto sizes = ints_of(ctx, 1, "split");
  if (!sizes) {
    const int64_t count = ctx.node.int_attr("num_outputs", static_cast<int64_t>(outputs));
    check_outputs(ctx.node, outputs, count, "num_outputs");
    return equal_parts(ctx.node, extent, count, outputs);
  }
  check_outputs(ctx.node, outputs, std::ssize(*sizes), "the number of sizes in split");
  int64_t total = 0;
  for (int64_t size : *sizes) {
    if (size < 0) node_error(ctx.node, fmt::format("split has size {}; sizes must be 0 or more", size));
    total = checked_add(ctx.node, total, size);
  }
  if (total != extent) {
    node_error(ctx.node, fmt::format("split sizes [{}] add up to {}, expected {}, the extent of the axis", text(*sizes),
                                     total, extent));
  }
  return *std::move(sizes);
}

/// Returns where each output begins along the axis, and where the last one ends.
std::vector<int64_t> bounds_of(const std::vector<int64_t>& sizes) {
  std::vector<int64_t> bounds{0};
  for (const int64_t size : sizes) bounds.push_back(bounds.back() + size);
  return bounds;
}

void infer(InferContext& ctx) {
  const std::vector<int64_t> sizes = sizes_of(ctx);
  Shape shape = ctx.shape(0);
  const auto axis = static_cast<size_t>(axis_of(ctx.node, shape));
  for (size_t k = 0; k < sizes.size(); ++k) {
    shape[axis] = sizes[k];
    ctx.set(k, ctx.dtype(0), shape);
  }
}

void reference(ReferenceContext& ctx) {
  const std::vector<int64_t> bounds = bounds_of(sizes_of(ctx));
  const Shape strides = dense_strides(ctx.in(0).shape());
  const auto axis = static_cast<size_t>(axis_of(ctx.node, ctx.in(0).shape()));
  for (size_t k = 0; k + 1 < bounds.size(); ++k) {
    if (!ctx.wants(k)) continue;
    const Shape& shape = ctx.out(k).shape();
    copy_strided(ctx.in(0), bounds[k] * strides[axis], strides, ctx.out(k), 0, dense_strides(shape), shape);
  }
}

std::optional<std::vector<CopyRegion>> regions(const OpView& view, int32_t output) {
  if (!known(view, 1)) return std::nullopt;
  Shape shape = view.inputs[0].shape;
  const Shape strides = dense_strides(shape);
  const auto axis = static_cast<size_t>(axis_of(view.node, shape));
  const auto k = static_cast<size_t>(output);
  if (view.of_outputs.empty()) view.of_outputs = bounds_of(sizes_of(view));
  const int64_t begin = view.of_outputs.at(k);
  shape[axis] = view.of_outputs.at(k + 1) - begin;
  return tidy({whole_region(0, shape, strides, begin * strides[axis])});
}

}  // namespace

KILTER_OP(Split){
    .name = "Split",
    .family = Family::movement,
    .movement = Movement::split,
    .max_inputs = 2,
    .max_outputs = -1,
    .attrs = {{"axis", "int", "0"}, {"split", "ints", ""}, {"num_outputs", "int", ""}},
    .summary =
        "y0, y1, ... = x cut along axis: into the sizes of split (input 1; an attribute before opset 13) or equal "
        "parts. The last outputs may be left out.",
    .infer = infer,
    .reference = reference,
    .regions = regions,
    .shape_operands = {1},
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"f32[2,17,3] i64[3]=1,9,7 | axis=1 | | 3", "f32[7,3] | num_outputs=3 | | 3",
              "i64[3,6] | axis=-1 | 11 | 2", "u8[3,5] | axis=-1 split=[1,4] | 7 | 2", "f16[33] i64[2]=33,0 | | | 2",
              "bool[4,1] i64[1]=4", "f32[7,3] | num_outputs=3 | | 2", "f32[2,17,3] i64[3]=1,9,7 | axis=1 | | 2",
              "u8[3,5] | axis=-1 split=[1,3,1] | 7 | 1"},
};

}  // namespace kilter
