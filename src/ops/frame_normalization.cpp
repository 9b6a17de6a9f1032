// FrameNormalization: GroupNormalization of volumes that are stored with one image per frame.

#include "ops/support/elementwise.h"
#include "ops/support/normalize.h"

namespace kilter {
namespace {

void infer(InferContext& ctx) {
  const Shape& x = ctx.shape(0);
  check_parameters(ctx, x.size() > 1 ? x[1] : 0);
  if (x.size() != 4) ctx.error(fmt::format("input 0 of shape {} is not an image, expected 4 dimensions", text(x)));
  const int64_t volumes = ctx.node.int_attr("volumes", 1), groups = ctx.node.int_attr("num_groups", 1);
  if (volumes < 1 || groups < 1 || x[0] % volumes != 0 || x[1] % groups != 0) {
    ctx.error(fmt::format("volumes={} and num_groups={} do not divide the frames and channels of an input of shape {}",
                          volumes, groups, text(x)));
  }
  ctx.set(0, ctx.dtype(0), x);
}

void reference(ReferenceContext& ctx) {
  const Tensor& x = ctx.in(0);
  const int64_t volumes = ctx.node.int_attr("volumes", 1), groups = ctx.node.int_attr("num_groups", 1);
  const int64_t frames = x.shape()[0] / volumes, channels = x.shape()[1], pixels = product(x.shape(), 2, 4);
  const Shape volume{volumes, channels, frames, pixels};
  const Shape as_frames{frames * channels * pixels, pixels, channels * pixels, 1};
  const Tensor turned(x.dtype(), volume), back(x.dtype(), volume);
  copy_strided(x, 0, as_frames, turned, 0, dense_strides(volume), volume);
  Normalized result = normalize(turned, channels / groups * frames * pixels, ctx.node.float_attr("epsilon", 1e-5F));
  scale_and_shift(result.values, volume, ctx.in(1).reshaped({channels, 1, 1}), ctx.in(2).reshaped({channels, 1, 1}));
  store_doubles(back, result.values);
  copy_strided(back, 0, dense_strides(volume), ctx.out(), 0, as_frames, volume);
}

}  // namespace

KILTER_OP(FrameNormalization){
    .name = "FrameNormalization",
    .domain = "kilter",
    .family = Family::normalize,
    .statistics = Statistics::volume_group,
    .min_inputs = 3,
    .max_inputs = 3,
    .attrs = {{"epsilon", "float", "1e-5"}, {"num_groups", "int", "required"}, {"volumes", "int", "1"}},
    .summary =
        "y = (x - mean) / sqrt(variance + epsilon) * scale [C] + bias [C], mean and variance over each group of "
        "channels of all frames of a volume of x [volumes * d, C, h, w]; created by the pass volumes_as_images.",
    .infer = infer,
    .reference = reference,
    .tolerance = {.rtol = 1e-4, .atol = 1e-5},
    .cases = {"f32[4,6,5,3] f32[6] f32[6] | num_groups=6", "f32[6,20,4,7] f32[20] f32[20] | num_groups=2 volumes=2",
              "f32[3,17,9,2] f32[17] f32[17] | num_groups=17 volumes=3 epsilon=0.01"},
};

}  // namespace kilter
