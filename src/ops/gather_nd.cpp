#include "ops/support/indexing.h"

namespace kilter {
namespace {

/// The number of leading dimensions shared by data and indices, and the number of dimensions indexed by one tuple.
struct Split {
  size_t batch;
  size_t tuple;
};

Split split_of(const Node& node, const Shape& data, const Shape& indices) {
  const int64_t batch = node.int_attr("batch_dims", 0);
  const auto limit = static_cast<int64_t>(std::min(data.size(), indices.size()));
  if (batch < 0 || batch >= limit) {
    node_error(node,
               fmt::format("batch_dims is {}; legal values are 0 to {} for data of rank {} and indices of rank {}",
                           batch, limit - 1, data.size(), indices.size()));
  }
  const auto left = static_cast<int64_t>(data.size()) - batch;
  if (indices.back() < 1 || indices.back() > left) {
    node_error(node,
               fmt::format("the last dimension of indices is {}; legal values are 1 to {}", indices.back(), left));
  }
  return {static_cast<size_t>(batch), static_cast<size_t>(indices.back())};
}

void infer(InferContext& ctx) {
  check_indices(ctx, 1);
  const Shape& data = ctx.shape(0);
  const Shape& indices = ctx.shape(1);
  const Split split = split_of(ctx.node, data, indices);
  for (size_t d = 0; d < split.batch; ++d) {
    if (data[d] != indices[d]) {
      ctx.error(fmt::format("batch dimension {} is {} in the data and {} in the indices", d, data[d], indices[d]));
    }
  }
  check_constant_indices(ctx);
  Shape shape(indices.begin(), indices.end() - 1);
  shape.insert(shape.end(), data.begin() + static_cast<int64_t>(split.batch + split.tuple), data.end());
  set_same_dtype(ctx, std::move(shape));
}

void reference(ReferenceContext& ctx) {
  const Shape& data = ctx.in(0).shape();
  const Shape& indices = ctx.in(1).shape();
  const Split split = split_of(ctx.node, data, indices);
  const Shape strides = dense_strides(data);
  const int64_t inner = product(data, split.batch + split.tuple, data.size());
  const int64_t batches = product(data, 0, split.batch);
  const int64_t batch_elems = product(data, split.batch, data.size());
  const int64_t tuples = product(indices, split.batch, indices.size() - 1);
  const auto width = static_cast<int64_t>(split.tuple);
  const IndexRange range = *index_range(ctx.node, data, indices);
  for (int64_t t = 0; t < batches * tuples; ++t) {
    int64_t from = t / tuples * batch_elems;
    for (size_t k = 0; k < split.tuple; ++k) {
      const int64_t index = checked_index(ctx.node, ctx.in(1), t * width + static_cast<int64_t>(k), range);
      from += index * strides[split.batch + k];
    }
    copy_elements(ctx.in(0), from, ctx.out(), t * inner, inner);
  }
}

}  // namespace

KILTER_OP(GatherND){
    .name = "GatherND",
    .since = 11,
    .family = Family::gather,
    .addressing = Addressing::tuple,
    .min_inputs = 2,
    .max_inputs = 2,
    .attrs = {{"batch_dims", "int", "0"}},
    .summary =
        "y[b, i] = x[b, indices[b, i, 0], indices[b, i, 1], ...] with batch_dims leading dimensions b in common.",
    .infer = infer,
    .reference = reference,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"f32[2,2] i64[2,2]:0,0,1,1", "f32[3,7,5] i64[2,1]:-1,0", "i32[2,2,3] i64[2,1]:1,0 | batch_dims=1",
              "f16[2,3,4] i64[1,2,3]:0,1,2,1,2,-1 | | 11"},
};

}  // namespace kilter
