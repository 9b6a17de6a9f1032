#include "ops/support/elementwise.h"
#include "ops/support/normalize.h"

namespace kilter {
namespace {

/// Throws if scale or bias does not broadcast to x.
void check_parameter(const InferContext& ctx, size_t i, const char* what) {
  if (!ctx.has(i)) return;
  if (broadcast_shapes(std::vector<Shape>{ctx.shape(i), ctx.shape(0)}) != ctx.shape(0)) {
    ctx.error(
        fmt::format("{} has shape {}, which does not broadcast to {}", what, text(ctx.shape(i)), text(ctx.shape(0))));
  }
}

/// Returns the number of elements that are normalised together: the product of the dimensions from `axis` on.
int64_t block_of(const Node& node, const Shape& x) {
  const int64_t axis = normal_axis(node, node.int_attr("axis", -1), static_cast<int64_t>(x.size()));
  return product(x, static_cast<size_t>(axis), x.size());
}

void infer_layer(InferContext& ctx) {
  check_types(Floats{}, ctx, 0);
  check_parameter(ctx, 1, "scale");
  check_parameter(ctx, 2, "bias");
  const Shape& x = ctx.shape(0);
  const DType stash = stash_dtype(ctx.node);
  Shape reduced = x;
  const int64_t axis = normal_axis(ctx.node, ctx.node.int_attr("axis", -1), ctx.rank(0));
  for (size_t d = static_cast<size_t>(axis); d < reduced.size(); ++d) reduced[d] = 1;
  ctx.set(0, ctx.dtype(0), x);
  if (ctx.outputs.size() > 1) ctx.set(1, stash, reduced);
  if (ctx.outputs.size() > 2) ctx.set(2, stash, reduced);
}

void reference_layer(ReferenceContext& ctx) {
  const Tensor& x = ctx.in(0);
  Normalized result = normalize(x, block_of(ctx.node, x.shape()), ctx.node.float_attr("epsilon", 1e-5F));
  scale_and_shift(result.values, x.shape(), ctx.in(1), ctx.has(2) ? ctx.in(2) : Tensor());
  if (ctx.wants(0)) store_doubles(ctx.out(0), result.values);
  if (ctx.wants(1)) store_doubles(ctx.out(1), result.means);
  if (ctx.wants(2)) store_doubles(ctx.out(2), result.inverse_deviations);
}

void infer_rms(InferContext& ctx) {
  check_types(Floats{}, ctx, 0);
  check_types(Floats{}, ctx, 1);
  check_parameter(ctx, 1, "scale");
  stash_dtype(ctx.node);
  block_of(ctx.node, ctx.shape(0));
  ctx.set(0, ctx.dtype(1), ctx.shape(0));
}

void reference_rms(ReferenceContext& ctx) {
  const Tensor& x = ctx.in(0);
  Normalized result = normalize(x, block_of(ctx.node, x.shape()), ctx.node.float_attr("epsilon", 1e-5F), false);
  scale_and_shift(result.values, x.shape(), ctx.in(1), Tensor());
  store_doubles(ctx.out(), result.values);
}

}  // namespace

KILTER_OP(LayerNormalization){
    .name = "LayerNormalization",
    .since = 17,
    .family = Family::normalize,
    .statistics = Statistics::row,
    .min_inputs = 2,
    .max_inputs = 3,
    .max_outputs = 3,
    .attrs = {{"axis", "int", "-1"}, {"epsilon", "float", "1e-5"}, {"stash_type", "int", "1"}},
    .summary =
        "y = (x - mean) / sqrt(variance + epsilon) * scale + bias, mean and variance over the dimensions from axis "
        "on; optionally the mean and 1/sqrt(variance + epsilon) in the type of stash_type.",
    .infer = infer_layer,
    .reference = reference_layer,
    // A single pass over float sums of up to thousands of terms.
    .tolerance = {.rtol = 1e-4, .atol = 1e-5},
    .cases = {"f32[2,5,33] f32[33] f32[33]", "f32[3,4,7] f32[4,7] ? | axis=1", "f32[17] f32[17] f32[17]",
              "f32[2,3,4,5] f32[4,5] f32[4,5] | axis=-2 epsilon=0.1 | | 3", "f32[1,197,768] f32[768] f32[768]",
              "f32[271,17] f32[17] f32[17]", "f32[2,70,40] f32[40] ?"},
};

KILTER_OP(RMSNormalization){
    .name = "RMSNormalization",
    .since = 23,
    .family = Family::normalize,
    .statistics = Statistics::row_squares,
    .min_inputs = 2,
    .max_inputs = 2,
    .attrs = {{"axis", "int", "-1"}, {"epsilon", "float", "1e-5"}, {"stash_type", "int", "1"}},
    .summary = "y = x / sqrt(mean of x^2 + epsilon) * scale, the mean over the dimensions from axis on.",
    .infer = infer_rms,
    .reference = reference_rms,
    .tolerance = {.rtol = 1e-4, .atol = 1e-5},
    .cases = {"f32[2,5,33] f32[33]", "f32[3,4,7] f32[4,7] | axis=1", "f32[17] f32[17]", "f32[1,9,2048] f32[2048]"},
};

}  // namespace kilter
