#include "ops/support/elementwise.h"
#include "ops/support/normalize.h"

namespace kilter {
namespace {

void infer_instance(InferContext& ctx) {
  check_parameters(ctx, ctx.rank(0) > 1 ? ctx.shape(0)[1] : 0);
  ctx.set(0, ctx.dtype(0), ctx.shape(0));
}

void reference_instance(ReferenceContext& ctx) {
  const Tensor& x = ctx.in(0);
  const Shape parameter = channel_shape(x.shape()[1], x.rank());
  Normalized result = normalize(x, product(x.shape(), 2, x.shape().size()), ctx.node.float_attr("epsilon", 1e-5F));
  scale_and_shift(result.values, x.shape(), ctx.in(1).reshaped(parameter), ctx.in(2).reshaped(parameter));
  store_doubles(ctx.out(), result.values);
}

/// Before opset 21, scale and bias had one entry per group.
bool per_group(const Node& node) { return node.opset < 21; }

int64_t groups_of(const Node& node, const Shape& x) {
  const int64_t groups = node.int_attr("num_groups", 1);
  if (x.size() < 2 || groups < 1 || x[1] % groups != 0) {
    node_error(node,
               fmt::format("num_groups={} does not divide the channels of an input of shape {}", groups, text(x)));
  }
  return groups;
}

void infer_group(InferContext& ctx) {
  const int64_t groups = groups_of(ctx.node, ctx.shape(0));
  check_parameters(ctx, per_group(ctx.node) ? groups : ctx.shape(0)[1]);
  stash_dtype(ctx.node);
  ctx.set(0, ctx.dtype(0), ctx.shape(0));
}

void reference_group(ReferenceContext& ctx) {
  const Tensor& x = ctx.in(0);
  const int64_t groups = groups_of(ctx.node, x.shape());
  Shape split = {x.shape()[0], groups, x.shape()[1] / groups};
  split.insert(split.end(), x.shape().begin() + 2, x.shape().end());
  Shape parameter(split.size() - 1, 1);
  parameter[0] = groups;
  if (!per_group(ctx.node)) parameter[1] = split[2];
  Normalized result = normalize(x, product(split, 2, split.size()), ctx.node.float_attr("epsilon", 1e-5F));
  scale_and_shift(result.values, split, ctx.in(1).reshaped(parameter), ctx.in(2).reshaped(parameter));
  store_doubles(ctx.out(), result.values);
}

}  // namespace

KILTER_OP(InstanceNormalization){
    .name = "InstanceNormalization",
    .since = 6,
    .family = Family::normalize,
    .statistics = Statistics::channel,
    .min_inputs = 3,
    .max_inputs = 3,
    .attrs = {{"epsilon", "float", "1e-5"}},
    .summary =
        "y = (x - mean) / sqrt(variance + epsilon) * scale [C] + bias [C], mean and variance over the spatial axes "
        "of each image and channel of x [N, C, d0, ...].",
    .infer = infer_instance,
    .reference = reference_instance,
    // A single pass over float sums of up to thousands of terms.
    .tolerance = {.rtol = 1e-4, .atol = 1e-5},
    .cases = {"f32[1,17,7,9] f32[17] f32[17]", "f32[2,3,33] f32[3] f32[3] | epsilon=0.01",
              "f32[1,5,3,4,5] f32[5] f32[5] | | 7"},
};

KILTER_OP(GroupNormalization){
    .name = "GroupNormalization",
    .since = 18,
    .family = Family::normalize,
    .statistics = Statistics::group,
    .min_inputs = 3,
    .max_inputs = 3,
    .attrs = {{"epsilon", "float", "1e-5"}, {"num_groups", "int", "required"}, {"stash_type", "int", "1"}},
    .summary =
        "y = (x - mean) / sqrt(variance + epsilon) * scale + bias, mean and variance over each group of channels of x "
        "[N, C, d0, ...]; scale and bias [C], up to opset 20 [num_groups].",
    .infer = infer_group,
    .reference = reference_group,
    .tolerance = {.rtol = 1e-4, .atol = 1e-5},
    .cases = {"f32[1,12,7,9] f32[12] f32[12] | num_groups=3", "f32[2,33,5] f32[33] f32[33] | num_groups=33",
              "f32[1,8,6,6] f32[4] f32[4] | num_groups=4 | 18", "f32[1,17,3,3] f32[17] f32[17] | num_groups=1",
              "f32[2,20,3,70,61] f32[20] f32[20] | num_groups=2", "f32[3,6] f32[6] f32[6] | num_groups=2"},
};

}  // namespace kilter
