// GroupNorm and SkipGroupNorm, the group normalisations of diffusion networks in com.microsoft.
#include "ops/support/expander.h"

namespace kilter {
namespace {

enum Input : size_t { kX, kGamma, kBeta, kSkip, kBias };

class Expansion : Expander {
 public:
  explicit Expansion(ExpandContext& ctx) : Expander(ctx), last_(node().int_attr("channels_last", 1) != 0) {}

  /// y and x + skip + bias.
  std::vector<ValueId> run() {
    x_ = shape(in(kX));
    if (x_.size() != 4) error(fmt::format("input 0 has shape {}, expected 4 dimensions", text(x_)));
    channels_ = x_[last_ ? 3 : 1];
    check_shape_of(kGamma, "gamma", {channels_});
    check_shape_of(kBeta, "beta", {channels_});
    const int64_t activation = node().int_attr("activation", 0);
    if (activation != 0 && activation != 1) {
      error(fmt::format("attribute activation is {}; legal values are 0 (none) and 1 (SiLU)", activation));
    }
    const ValueId s = sum(sum(in(kX), skip()), has(kBias) ? along_channels(kBias, "bias") : kNone);
    const DType type = dtype(s);
    const ValueId turned = last_ ? transposed(s, {0, 3, 1, 2}) : s;
    ValueId y = add("GroupNormalization", {turned, cast(in(kGamma), type), cast(in(kBeta), type)},
                    {{"num_groups", node().int_attr("groups", 1)}, {"epsilon", node().float_attr("epsilon", 1e-5F)}});
    if (activation == 1) y = add("Swish", {y});
    return {last_ ? transposed(y, {0, 2, 3, 1}) : y, s};
  }

 private:
  Shape per_image(int64_t images) const {
    return last_ ? Shape{images, 1, 1, channels_} : Shape{images, channels_, 1, 1};
  }
  ValueId along_channels(size_t i, std::string_view what) {
    check_shape_of(i, what, {channels_});
    return reshaped(in(i), per_image(1));
  }
  ValueId skip() {
    if (!has(kSkip)) return kNone;
    const std::vector<Shape> legal = {x_, per_image(x_[0]), {x_[0], channels_}};
    check_shape_of(kSkip, "skip", legal);
    return shape(in(kSkip)).size() == 2 ? reshaped(in(kSkip), per_image(x_[0])) : in(kSkip);
  }

  bool last_ = true;
  Shape x_;
  int64_t channels_ = 0;
};

std::vector<ValueId> expand(ExpandContext& ctx) { return Expansion(ctx).run(); }

std::vector<AttrSpec> attrs() {
  return {{"activation", "int", "required"},
          {"channels_last", "int", "1"},
          {"epsilon", "float", "1e-5"},
          {"groups", "int", "required"}};
}

}  // namespace

KILTER_OP(GroupNorm){
    .name = "GroupNorm",
    .domain = "com.microsoft",
    .family = Family::normalize,
    .min_inputs = 3,
    .max_inputs = 3,
    .attrs = attrs(),
    .summary =
        "GroupNormalization of x [N, H, W, C], or [N, C, H, W] with channels_last=0, followed by SiLU if activation is "
        "1; inputs x, gamma, beta.",
    .expand = expand,
    .tolerance = {.rtol = 1e-4, .atol = 1e-5},
    .cases = {"f32[2,3,4,6] f32[6] f32[6] | groups=3 activation=1",
              "f32[1,6,3,4] f32[6] f32[6] | groups=2 activation=0 "
              "channels_last=0 epsilon=0.1"},
};

KILTER_OP(SkipGroupNorm){
    .name = "SkipGroupNorm",
    .domain = "com.microsoft",
    .family = Family::normalize,
    .min_inputs = 4,
    .max_inputs = 5,
    .max_outputs = 2,
    .attrs = attrs(),
    .summary =
        "GroupNorm of x + skip + bias, and the sum; inputs x, gamma, beta, skip, bias. The skip is like x, or has "
        "one value for each image and channel.",
    .expand = expand,
    .tolerance = {.rtol = 1e-4, .atol = 1e-5},
    .cases = {"f32[2,3,4,6] f32[6] f32[6] f32[2,3,4,6] f32[6] | groups=3 activation=1 | | 2",
              "f32[2,3,4,6] f32[6] f32[6] f32[2,6] | groups=2 activation=0",
              "f32[2,6,3,4] f32[6] f32[6] f32[2,6,1,1] | groups=2 activation=0 channels_last=0"},
};

}  // namespace kilter
