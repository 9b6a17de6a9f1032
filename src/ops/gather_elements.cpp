#include "ops/support/indexing.h"

namespace kilter {
namespace {

size_t axis_of(const Node& node, const Shape& shape) {
  return static_cast<size_t>(normal_axis(node, node.int_attr("axis", 0), static_cast<int64_t>(shape.size())));
}

void infer(InferContext& ctx) {
  check_indices(ctx, 1);
  const Shape& data = ctx.shape(0);
  const Shape& indices = ctx.shape(1);
  const size_t axis = axis_of(ctx.node, data);
  check_count(ctx.node, "dimensions of indices, to match the data", data.size(), indices.size());
  for (size_t d = 0; d < data.size(); ++d) {
    if (d != axis && indices[d] > data[d]) {
      ctx.error(
          fmt::format("indices of shape {} exceed the data of shape {} in dimension {}", text(indices), text(data), d));
    }
  }
  check_constant_indices(ctx);
  set_same_dtype(ctx, indices);
}

void reference(ReferenceContext& ctx) {
  const Shape& data = ctx.in(0).shape();
  const Shape strides = dense_strides(data);
  const size_t axis = axis_of(ctx.node, data);
  const IndexRange range = *index_range(ctx.node, data, ctx.in(1).shape());
  int64_t i = 0;
  for_each_index(ctx.out().shape(), [&](std::span<const int64_t> index) {
    const int64_t at = checked_index(ctx.node, ctx.in(1), i, range);
    copy_element(ctx.in(0), offset_of(index, strides) + (at - index[axis]) * strides[axis], ctx.out(), i);
    ++i;
  });
}

}  // namespace

KILTER_OP(GatherElements){
    .name = "GatherElements",
    .since = 11,
    .family = Family::gather,
    .addressing = Addressing::element,
    .min_inputs = 2,
    .max_inputs = 2,
    .attrs = {{"axis", "int", "0"}},
    .summary =
        "y[i, j, ...] = x[i, j, ...] with the index of axis replaced by indices[i, j, ...]; y has the shape of "
        "indices.",
    .infer = infer,
    .reference = reference,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"f32[2,2] i64[2,2]:0,0,1,0 | axis=1", "f32[3,3] i32[2,3]:-1,-2,0,2,0,0", "i64[17,1] i64[3,1]:16,0,-17",
              "f16[2,7,3] i64[2,1,3]:0,6,1,-1,2,3 | axis=1 | 11"},
};

}  // namespace kilter
