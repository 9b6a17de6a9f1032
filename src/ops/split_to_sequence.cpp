#include "ops/support/sequences.h"

namespace kilter {
namespace {

/// The most parts: each takes about a hundred bytes in addition to its elements, of which there may be none.
constexpr int64_t kMostParts = int64_t{1} << 24;

void check_parts(const RunContext& ctx, int64_t count) {
  if (count > kMostParts)
    node_error(ctx.node, fmt::format("splits into {} parts; the limit is {}; give larger sizes", count, kMostParts));
}

/// Returns the sizes of the parts: those of input 1, or equal parts with a smaller last one, or parts of one.
std::vector<int64_t> part_sizes(const RunContext& ctx, int64_t extent) {
  if (!ctx.has(1)) {
    check_parts(ctx, extent);
    return std::vector<int64_t>(static_cast<size_t>(extent), 1);
  }
  const Tensor& split = ctx.tensor(1);
  if (split.dtype() != DType::i32 && split.dtype() != DType::i64)
    node_error(ctx.node, fmt::format("the sizes of the parts are {}, expected i32 or i64", text(ctx.inputs[1])));
  std::vector<int64_t> sizes = split.ints();
  if (split.rank() == 0) {
    const int64_t size = sizes[0];
    if (size < 1) node_error(ctx.node, fmt::format("the size of the parts is {}, expected 1 or more", size));
    check_parts(ctx, extent / size);
    sizes.assign(static_cast<size_t>(extent / size), size);
    if (extent % size != 0) sizes.push_back(extent % size);
    return sizes;
  }
  int64_t left = extent;
  for (const int64_t size : sizes) {
    if (size < 0 || size > left)
      node_error(ctx.node, fmt::format("the sizes of the parts do not add up to {}: {} is left for a part of {}",
                                       extent, left, size));
    left -= size;
  }
  if (left != 0) node_error(ctx.node, fmt::format("the sizes of the parts leave {} of {} elements", left, extent));
  return sizes;
}

std::vector<AnyValue> run(RunContext& ctx) {
  const Tensor& x = ctx.tensor(0);
  const int64_t axis = normal_axis(ctx.node, ctx.node.int_attr("axis", 0), x.rank());
  const bool squeeze = !ctx.has(1) && ctx.node.int_attr("keepdims", 1) == 0;
  std::vector<AnyValue> parts;
  int64_t at = 0;
  for (const int64_t size : part_sizes(ctx, x.shape()[static_cast<size_t>(axis)])) {
    Tensor part = part_along(x, axis, at, size);
    if (squeeze) {
      Shape shape = part.shape();
      shape.erase(shape.begin() + axis);
      part = part.reshaped(std::move(shape));
    }
    parts.emplace_back(std::move(part));
    at += size;
  }
  return {AnyValue::sequence(std::move(parts))};
}

}  // namespace

KILTER_OP(SplitToSequence){
    .name = "SplitToSequence",
    .since = 11,
    .min_inputs = 1,
    .max_inputs = 2,
    .attrs = {{"axis", "int", "0"}, {"keepdims", "int", "1"}},
    .summary =
        "y = sequence of the parts of x along an axis: of the given sizes, of one given size, or of size 1, then "
        "without "
        "the axis if keepdims is 0.",
    .run = run,
};

}  // namespace kilter
