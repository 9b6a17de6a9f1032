#include "ops/support/indexing.h"

namespace kilter {
namespace {

size_t axis_of(const Node& node, const Shape& shape) {
  return static_cast<size_t>(normal_axis(node, node.int_attr("axis", 0), static_cast<int64_t>(shape.size())));
}

void infer(InferContext& ctx) {
  check_indices(ctx, 1);
  combine_of(ctx.node);
  const Shape& data = ctx.shape(0);
  const Shape& indices = ctx.shape(1);
  axis_of(ctx.node, data);
  if (ctx.dtype(2) != ctx.dtype(0)) {
    ctx.error(fmt::format("updates have element type {}, expected {} to match the data", name(ctx.dtype(2)),
                          name(ctx.dtype(0))));
  }
  if (indices != ctx.shape(2)) {
    ctx.error(fmt::format("indices have shape {} but updates have shape {}; they must be the same", text(indices),
                          text(ctx.shape(2))));
  }
  check_count(ctx.node, "dimensions of indices, to match the data", data.size(), indices.size());
  for (size_t d = 0; d < data.size(); ++d) {
    if (indices[d] > data[d] && d != axis_of(ctx.node, data)) {
      ctx.error(
          fmt::format("indices of shape {} exceed the data of shape {} in dimension {}", text(indices), text(data), d));
    }
  }
  check_constant_indices(ctx);
  infer_same(ctx);
}

void reference(ReferenceContext& ctx) {
  const Combine how = combine_of(ctx.node);
  const Shape& data = ctx.in(0).shape();
  const Shape strides = dense_strides(data);
  const size_t axis = axis_of(ctx.node, data);
  copy_all(ctx.in(0), ctx.out());
  const IndexRange range = *index_range(ctx.node, data, ctx.in(1).shape());
  int64_t i = 0;
  for_each_index(ctx.in(1).shape(), [&](std::span<const int64_t> index) {
    const int64_t at = checked_index(ctx.node, ctx.in(1), i, range);
    const int64_t to = offset_of(index, strides) + (at - index[axis]) * strides[axis];
    combine_element(ctx.node, how, ctx.in(2), i, ctx.out(), to);
    ++i;
  });
}

}  // namespace

KILTER_OP(ScatterElements){
    .name = "ScatterElements",
    .since = 11,
    .family = Family::scatter,
    .addressing = Addressing::element,
    .min_inputs = 3,
    .max_inputs = 3,
    .attrs = {{"axis", "int", "0"}, {"reduction", "string", "none"}},
    .summary =
        "y = x with updates[i, j, ...] written (or combined by add, mul, max, min) at [i, j, ...] with the index of "
        "axis replaced by indices[i, j, ...].",
    .infer = infer,
    .reference = reference,
    .cases = {"f32[3,3] i64[2,3]:1,0,2,0,2,1 f32[2,3]", "f32[1,5] i64[1,2]:1,-3 f32[1,2] | axis=1",
              "i32[1,7] i64[1,3]:1,1,-6 i32[1,3] | axis=1 reduction=add", "f16[17] i32[2]:16,0 f16[2] | reduction=max",
              "f32[5] i64[3]:1,1,3 f32[3] | reduction=mul", "u8[4] i64[2]:0,3 u8[2] | reduction=min | 18"},
};

KILTER_OP(Scatter){
    .name = "Scatter",
    .since = 9,
    .family = Family::scatter,
    .addressing = Addressing::element,
    .min_inputs = 3,
    .max_inputs = 3,
    .attrs = {{"axis", "int", "0"}},
    .summary = "The older name of ScatterElements without reduction.",
    .infer = infer,
    .reference = reference,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"f32[3,3] i64[2,3]:1,0,2,0,2,1 f32[2,3] | | 10", "i64[1,5] i64[1,2]:1,3 i64[1,2] | axis=1 | 9"},
};

}  // namespace kilter
