// TakeChannels: channels of images side by side, in any order. Represents concatenations, parts and shuffles of
// channels whose blocks do not line up.

#include "ops/support/channels.h"
#include "ops/support/iterate.h"
#include "ops/support/operands.h"

namespace kilter {
namespace {

void infer(InferContext& ctx) {
  Shape shape = ctx.shape(0);
  if (shape.size() != 4)
    ctx.error(fmt::format("input 0 of shape {} is not an image, expected 4 dimensions", text(shape)));
  int64_t channels = 0;
  for (size_t i = 0; i < ctx.input_count(); ++i) {
    Shape other = ctx.shape(i);
    if (other.size() == 4) channels = checked_add(ctx.node, channels, std::exchange(other[1], shape[1]));
    if (other != shape || ctx.dtype(i) != ctx.dtype(0)) {
      ctx.error(fmt::format("input {} is {}, which does not fit input 0, {}: only channels may differ", i,
                            text(ctx.type(i)), text(ctx.type(0))));
    }
  }
  const std::vector<int64_t> taken = ctx.node.ints_attr("channels");
  for (const int64_t c : taken) {
    if (c < 0 || c >= channels) {
      ctx.error(fmt::format("channels contains {}, expected 0 to {}, as the inputs have {} channels", c, channels - 1,
                            channels));
    }
  }
  shape[1] = static_cast<int64_t>(taken.size());
  set_same_dtype(ctx, std::move(shape));
}

void reference(ReferenceContext& ctx) {
  const Shape& out = ctx.out().shape();
  const Shape to = dense_strides(out);
  std::vector<int64_t> counts;
  for (const Tensor& in : ctx.inputs) counts.push_back(in.shape()[1]);
  const std::vector<ChannelOf> channels = channels_of(counts);
  int64_t at = 0;
  for (const int64_t c : ctx.node.ints_attr("channels")) {
    const auto& [image, channel] = channels[static_cast<size_t>(c)];
    const Tensor& in = ctx.inputs[image];
    const Shape from = dense_strides(in.shape());
    copy_strided(in, channel * from[1], from, ctx.out(), at++ * to[1], to, {out[0], 1, out[2], out[3]});
  }
}

int64_t no_flops(const OpView&) { return 0; }

}  // namespace

KILTER_OP(TakeChannels){
    .name = "TakeChannels",
    .domain = "kilter",
    .family = Family::channels,
    .max_inputs = -1,
    .attrs = {{"channels", "ints", "required"}},
    .summary =
        "y[:, k] = the channel channels[k] of the inputs [n, c, h, w], counted through all of them; created by the "
        "layout pass.",
    .infer = infer,
    .reference = reference,
    .flops = no_flops,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"f32[1,6,3,5] | channels=[0,3,1,4,2,5]", "f32[2,3,2,2] f32[2,5,2,2] | channels=[7,0,0,3]",
              "f32[1,40,4,4] f32[1,24,4,4] | channels=[0,63,1,62,2,61,3,60,4,59,5,58,6,57,7,56,8,55,9,54,10,53,41]"},
};

}  // namespace kilter
