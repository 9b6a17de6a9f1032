// Convolutions and pools with an activation, or of images with channels last, as ONNX Runtime's optimiser writes them.
#include <numeric>

#include "ops/support/activation_expander.h"
#include "ops/support/conv_reference.h"

namespace kilter {
namespace {

class Expansion : ActivationExpander {
 public:
  explicit Expansion(ExpandContext& ctx) : ActivationExpander(ctx) {}

  ValueId fused() { return activated(added(conv(in(0), in(1))), values()); }

  ValueId fused_channels_last() {
    const ValueId y = channels_last(conv(channels_first(0), in(1)));
    return activated(added(y), values());
  }

  /// The weights are [filters, k0, k1, channels / group].
  ValueId conv_channels_last() { return channels_last(conv(channels_first(0), channels_first(1))); }

  ValueId pool_channels_last() { return channels_last(add("MaxPool", {channels_first(0)}, node().attrs)); }

 private:
  ValueId conv(ValueId x, ValueId w) {
    Attrs attrs = node().attrs;
    attrs.erase("activation");
    attrs.erase("activation_params");
    return add("Conv", {x, w, in(2)}, std::move(attrs));
  }

  ValueId added(ValueId y) {
    check_shape_of(3, "z", shape(y));
    return sum(y, in(3));
  }

  std::vector<float> values() const {
    return node().has_attr("activation_params") ? node().floats_attr("activation_params") : std::vector<float>();
  }

  ValueId channels_first(size_t i) {
    const Shape own = shape(in(i));
    if (own.size() < 3)
      error(fmt::format("input {} has shape {}, expected [..., channels] of 3 or more", i, text(own)));
    std::vector<int64_t> perm(own.size());
    std::iota(perm.begin(), perm.end(), 0);
    std::rotate(perm.begin() + 1, perm.end() - 1, perm.end());
    return transposed(in(i), perm);
  }
  ValueId channels_last(ValueId v) {
    std::vector<int64_t> perm(shape(v).size());
    std::iota(perm.begin(), perm.end(), 0);
    std::rotate(perm.begin() + 1, perm.begin() + 2, perm.end());
    return transposed(v, perm);
  }
};

std::vector<ValueId> expand_fused(ExpandContext& ctx) { return {Expansion(ctx).fused()}; }
std::vector<ValueId> expand_fused_last(ExpandContext& ctx) { return {Expansion(ctx).fused_channels_last()}; }
std::vector<ValueId> expand_last(ExpandContext& ctx) { return {Expansion(ctx).conv_channels_last()}; }
std::vector<ValueId> expand_pool(ExpandContext& ctx) { return {Expansion(ctx).pool_channels_last()}; }

std::vector<AttrSpec> fused_attrs() {
  std::vector<AttrSpec> attrs = conv_attrs();
  attrs.push_back({"activation", "string", ""});
  attrs.push_back({"activation_params", "floats", ""});
  return attrs;
}

constexpr Tolerance kOfSums = {.rtol = 1e-4, .atol = 1e-5};

}  // namespace

KILTER_OP(FusedConv){
    .name = "FusedConv",
    .domain = "com.microsoft",
    .family = Family::conv,
    .min_inputs = 2,
    .max_inputs = 4,
    .attrs = fused_attrs(),
    .summary = "Conv of x, w and bias, plus z, followed by an activation.",
    .expand = expand_fused,
    .tolerance = kOfSums,
    .cases = {"f32[1,3,6,7] f32[4,3,3,3] f32[4] f32[1,4,6,7] | pads=[1,1,1,1] activation=Relu",
              "f32[1,4,5,5] f32[4,1,3,3] ? | group=4 activation=LeakyRelu activation_params=[0.3]",
              "f32[1,3,6,7] f32[4,3,1,1] f32[4] | activation=Clip activation_params=[0,6]"},
};

KILTER_OP(NhwcFusedConv){
    .name = "NhwcFusedConv",
    .domain = "com.microsoft",
    .family = Family::conv,
    .min_inputs = 2,
    .max_inputs = 4,
    .attrs = fused_attrs(),
    .summary = "FusedConv with the channels of x, z and y last.",
    .expand = expand_fused_last,
    .tolerance = kOfSums,
    .cases = {"f32[1,6,7,3] f32[4,3,3,3] f32[4] f32[1,6,7,4] | pads=[1,1,1,1] activation=Relu"},
};

KILTER_OP(NhwcConv){
    .name = "NhwcConv",
    .domain = "com.microsoft",
    .family = Family::conv,
    .min_inputs = 2,
    .max_inputs = 3,
    .attrs = conv_attrs(),
    .summary =
        "Conv with the channels of x [N, d0, ..., C] and y last, and weights [M, k0, ..., C / group], as ONNX "
        "Runtime's "
        "optimiser writes them.",
    .expand = expand_last,
    .tolerance = kOfSums,
    .cases = {"f32[1,6,7,3] f32[4,3,2,3] f32[4] | pads=[1,1,1,1] strides=[2,1]", "f32[1,5,5,4] f32[4,3,3,1] | group=4"},
};

KILTER_OP(NhwcMaxPool){
    .name = "NhwcMaxPool",
    .domain = "com.microsoft",
    .family = Family::pool,
    .attrs = {{"auto_pad", "string", "NOTSET"},
              {"ceil_mode", "int", "0"},
              {"dilations", "ints", ""},
              {"kernel_shape", "ints", "required"},
              {"pads", "ints", ""},
              {"strides", "ints", ""}},
    .summary = "MaxPool with the channels of x [N, d0, ..., C] and y last.",
    .expand = expand_pool,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"u8[1,6,7,3] | kernel_shape=[3,2] strides=[2,2]", "i8[1,5,5,4] | kernel_shape=[2,2] pads=[1,1,0,0]"},
};

}  // namespace kilter
