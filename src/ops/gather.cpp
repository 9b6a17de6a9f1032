#include "ops/support/indexing.h"

namespace kilter {
namespace {

size_t axis_of(const Node& node, const Shape& shape) {
  return static_cast<size_t>(normal_axis(node, node.int_attr("axis", 0), static_cast<int64_t>(shape.size())));
}

void infer(InferContext& ctx) {
  check_indices(ctx, 1);
  const Shape& data = ctx.shape(0);
  const auto axis = static_cast<int64_t>(axis_of(ctx.node, data));
  check_constant_indices(ctx);
  Shape shape(data.begin(), data.begin() + axis);
  shape.insert(shape.end(), ctx.shape(1).begin(), ctx.shape(1).end());
  shape.insert(shape.end(), data.begin() + axis + 1, data.end());
  set_same_dtype(ctx, std::move(shape));
}

void reference(ReferenceContext& ctx) {
  const Shape& data = ctx.in(0).shape();
  const size_t axis = axis_of(ctx.node, data);
  const int64_t outer = product(data, 0, axis);
  const int64_t inner = product(data, axis + 1, data.size());
  const int64_t rows = ctx.in(1).elems();
  const IndexRange range = *index_range(ctx.node, data, ctx.in(1).shape());
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t row = checked_index(ctx.node, ctx.in(1), r, range);
      copy_elements(ctx.in(0), (o * data[axis] + row) * inner, ctx.out(), (o * rows + r) * inner, inner);
    }
  }
}

}  // namespace

KILTER_OP(Gather){
    .name = "Gather",
    .family = Family::gather,
    .addressing = Addressing::axis,
    .min_inputs = 2,
    .max_inputs = 2,
    .attrs = {{"axis", "int", "0"}},
    .summary =
        "y = the slices of x (input 0) along axis at indices (input 1; negative from the end); the dimensions of "
        "indices replace the axis.",
    .infer = infer,
    .reference = reference,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"f32[5,7] i64[3]:4,0,-1", "f32[3,17,2] i32[2,2]:0,16,-17,3 | axis=1", "i64[33] i64[]=32",
              "f16[2,3,5] i64[1]:-2 | axis=-1", "f32[7,3] i64[0] | axis=1", "u8[2,4] i64[5]:1,0,1,1,0 | | 7"},
};

}  // namespace kilter
