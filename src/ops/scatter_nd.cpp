#include "ops/support/indexing.h"

namespace kilter {
namespace {

void infer(InferContext& ctx) {
  check_indices(ctx, 1);
  combine_of(ctx.node);
  const Shape& data = ctx.shape(0);
  const Shape& indices = ctx.shape(1);
  if (ctx.dtype(2) != ctx.dtype(0)) {
    ctx.error(fmt::format("updates have element type {}, expected {} to match the data", name(ctx.dtype(2)),
                          name(ctx.dtype(0))));
  }
  if (indices.empty() || indices.back() < 0 || indices.back() > ctx.rank(0)) {
    ctx.error(fmt::format("indices of shape {}: the last dimension must be at most {}, the rank of the data",
                          text(indices), data.size()));
  }
  Shape expected(indices.begin(), indices.end() - 1);
  expected.insert(expected.end(), data.begin() + indices.back(), data.end());
  if (ctx.shape(2) != expected) {
    ctx.error(fmt::format("updates have shape {}, expected {} for data {} and indices {}", text(ctx.shape(2)),
                          text(expected), text(data), text(indices)));
  }
  check_constant_indices(ctx);
  infer_same(ctx);
}

void reference(ReferenceContext& ctx) {
  const Combine how = combine_of(ctx.node);
  const Shape& data = ctx.in(0).shape();
  const Shape& indices = ctx.in(1).shape();
  const Shape strides = dense_strides(data);
  const int64_t width = indices.back();
  const int64_t inner = product(data, static_cast<size_t>(width), data.size());
  const int64_t tuples = product(indices, 0, indices.size() - 1);
  const IndexRange range = *index_range(ctx.node, data, indices);
  copy_all(ctx.in(0), ctx.out());
  for (int64_t t = 0; t < tuples; ++t) {
    int64_t to = 0;
    for (int64_t k = 0; k < width; ++k) {
      to += checked_index(ctx.node, ctx.in(1), t * width + k, range) * strides[static_cast<size_t>(k)];
    }
    for (int64_t i = 0; i < inner; ++i) combine_element(ctx.node, how, ctx.in(2), t * inner + i, ctx.out(), to + i);
  }
}

}  // namespace

KILTER_OP(ScatterND){
    .name = "ScatterND",
    .since = 11,
    .family = Family::scatter,
    .addressing = Addressing::tuple,
    .min_inputs = 3,
    .max_inputs = 3,
    .attrs = {{"reduction", "string", "none"}},
    .summary =
        "y = x with the slices updates[i] written (or combined by add, mul, max, min) at [indices[i, 0], indices[i, "
        "1], ...].",
    .infer = infer,
    .reference = reference,
    .cases = {"f32[8] i64[4,1]:4,3,1,7 f32[4]", "f32[4,3,5] i64[2,1]:0,-2 f32[2,3,5]",
              "i32[3,7] i64[2,2]:0,6,2,0 i32[2] | reduction=add", "f16[5,2] i64[2,1]:1,1 f16[2,2] | reduction=max",
              "f32[4] i64[3,1]:0,0,2 f32[3] | reduction=mul", "i64[2,3] i64[1,2]:1,-1 i64[1] | | 11"},
};

}  // namespace kilter
