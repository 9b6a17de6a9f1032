// Volumes [n,c,d,h,w]: convolutions, transposed convolutions and pools over depth, and the nodes between them.
#include <gtest/gtest.h>

#include "sweep.h"

namespace kilter {
namespace {

using Ints = std::vector<int64_t>;

struct Axes {
  Ints kernel, strides, dilations, pads;
};

/// Draws windows over depth, height and width.
Axes draw_axes(Draw& draw, bool dilated) {
  Axes a;
  Ints end;
  for (size_t axis = 0; axis < 3; ++axis) {
    const int64_t kernel = draw.pick({1, 2, 3, 3, 3, 4}), dilation = dilated && draw.chance(15) ? 2 : 1;
    a.kernel.push_back(kernel);
    a.strides.push_back(draw.pick({1, 1, 1, 2, 3}));
    a.dilations.push_back(dilation);
    a.pads.push_back(draw.between(0, (kernel - 1) * dilation));
    end.push_back(draw.between(0, (kernel - 1) * dilation));
  }
  a.pads.insert(a.pads.end(), end.begin(), end.end());
  return a;
}

ValueId draw_volume(SweepNet& net) {
  Draw& draw = net.draw;
  return net.input({draw.chance(75) ? 1 : 2, draw.pick({1, 3, 8, 16, 17, 32}), draw.between(1, 7), draw.between(3, 11),
                    draw.between(3, 11)});
}

ValueId add_conv(SweepNet& net, ValueId x) {
  Draw& draw = net.draw;
  const Axes a = draw_axes(draw, true);
  const int64_t channels = net.shape(x)[1];
  const int64_t groups = channels % 2 == 0 && draw.chance(25) ? draw.pick({int64_t{2}, channels}) : 1;
  const int64_t filters = groups * (groups == channels ? 1 : draw.pick({1, 3, 8, 16, 17}));
  std::vector<ValueId> inputs{x,
                              net.constant({filters, channels / groups, a.kernel[0], a.kernel[1], a.kernel[2]}, 0.2F)};
  if (draw.chance(50)) inputs.push_back(net.constant({filters}));
  return net.b.add("Conv", inputs,
                   {{"strides", a.strides}, {"dilations", a.dilations}, {"pads", a.pads}, {"group", groups}});
}

ValueId add_pool(SweepNet& net, ValueId x) {
  Draw& draw = net.draw;
  const Axes a = draw_axes(draw, true);
  Attrs attrs{{"kernel_shape", a.kernel}, {"strides", a.strides}, {"dilations", a.dilations}, {"pads", a.pads}};
  if (draw.chance(30)) attrs["ceil_mode"] = int64_t{1};
  if (draw.chance(20)) attrs.erase("pads"), attrs.erase("ceil_mode"), attrs["auto_pad"] = std::string("SAME_UPPER");
  if (draw.chance(50)) return net.b.add("MaxPool", {x}, attrs);
  if (draw.chance(50)) attrs["count_include_pad"] = int64_t{1};
  return net.b.add("AveragePool", {x}, attrs);
}

/// Adds a dense transposed convolution, or one in groups without overlap in depth.
ValueId add_conv_transpose(SweepNet& net, ValueId x) {
  Draw& draw = net.draw;
  Axes a = draw_axes(draw, false);
  const int64_t channels = net.shape(x)[1];
  const int64_t groups = channels % 2 == 0 && draw.chance(30) ? draw.pick({int64_t{2}, channels}) : 1;
  a.kernel[0] = groups > 1 ? a.strides[0] : std::max(a.kernel[0], a.strides[0]);
  Ints more;
  for (size_t axis = 0; axis < 3; ++axis) {
    const int64_t most = a.kernel[axis] - 1;
    a.pads[axis] = std::min(a.pads[axis], most), a.pads[axis + 3] = std::min(a.pads[axis + 3], most);
    more.push_back(draw.between(0, a.strides[axis] - 1));
  }
  const int64_t filters = groups == channels ? 1 : draw.pick({1, 3, 16, 17});
  std::vector<ValueId> inputs{x, net.constant({channels, filters, a.kernel[0], a.kernel[1], a.kernel[2]}, 0.2F)};
  if (draw.chance(50)) inputs.push_back(net.constant({filters * groups}));
  return net.b.add("ConvTranspose", inputs,
                   {{"strides", a.strides}, {"pads", a.pads}, {"output_padding", more}, {"group", groups}});
}

ValueId add_any(SweepNet& net, ValueId x) {
  const int64_t kind = net.draw.between(0, 9);
  return kind < 6 ? add_conv(net, x) : kind < 8 ? add_pool(net, x) : add_conv_transpose(net, x);
}

/// One operator, or several in sequence.
void make_volumes(SweepNet& net) {
  ValueId v = draw_volume(net);
  if (net.draw.chance(20)) v = net.elementwise(v);
  for (int64_t left = net.draw.between(1, 3); left > 0; --left) v = net.elementwise(add_any(net, v));
  if (net.draw.chance(20)) v = net.b.add("GlobalAveragePool", {v});
  net.output(v);
}

/// Volumes with several readers: sums, concatenations of channels, per-channel factors.
void make_joined(SweepNet& net) {
  Draw& draw = net.draw;
  const ValueId x = net.elementwise(add_conv(net, draw_volume(net)));
  const int64_t channels = net.shape(x)[1], filters = draw.pick({channels, int64_t{5}, int64_t{16}});
  ValueId y = net.b.add("Conv", {x, net.constant({filters, channels, 3, 3, 3}, 0.2F)}, {{"pads", Ints(6, 1)}});
  if (draw.chance(30)) {
    const ValueId mean = net.b.add("GlobalAveragePool", {y});
    y = net.b.add("Mul",
                  {y, net.b.add("Sigmoid", {net.b.add("Conv", {mean, net.constant({filters, filters, 1, 1, 1})})})});
  }
  if (draw.chance(40)) {
    const int64_t groups = filters % 4 == 0 && draw.chance(50) ? 4 : filters;
    std::vector<ValueId> inputs{y, net.constant({filters}), net.constant({filters})};
    y = groups == filters ? net.b.add("InstanceNormalization", inputs)
                          : net.b.add("GroupNormalization", inputs, {{"num_groups", groups}});
  }
  if (draw.chance(15)) net.output(y);
  const bool sum = filters == channels && draw.chance(60);
  const ValueId joined =
      sum ? net.b.add("Add", {y, x}) : net.b.add("Concat", {x, net.elementwise(y), y}, {{"axis", int64_t{1}}});
  net.output(net.elementwise(add_any(net, net.elementwise(joined))));
}

class VolumeSweep : public testing::TestWithParam<NetKind> {};

TEST_P(VolumeSweep, AgreesWithTheReference) { sweep(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Volumes, VolumeSweep,
                         testing::Values(NetKind{"Chains", make_volumes, 60, {"conv2d_direct", "pool_rows"}, true},
                                         NetKind{
                                             "Joined", make_joined, 40, {"conv2d_direct", "normalize_groups"}, true}),
                         [](const auto& family) { return std::string(family.param.name); });

}  // namespace
}  // namespace kilter
