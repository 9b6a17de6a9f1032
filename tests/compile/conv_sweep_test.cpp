// Convolutions, transposed convolutions and poolings with every kind of window, channel count and tail that the
// templates distinguish, alone and inside small networks.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "guarded_run.h"
#include "ops/support/evaluate.h"
#include "sweep.h"

namespace kilter {
namespace {

using Ints = std::vector<int64_t>;

constexpr int64_t kMostMacs = 1'500'000;  ///< per convolution: the reference kernels are slow

struct Plane {
  int64_t n, c, h, w;
  Shape shape() const { return {n, c, h, w}; }
};

Plane draw_plane(Draw& draw) {
  return {draw.pick({1, 1, 1, 2, 3}), draw.pick({1, 3, 5, 8, 16, 17, 32, 33}),
          draw.pick({1, 2, 3, 5, 7, 8, 9, 13, 14, 16, 19, 28}),
          draw.pick({1, 2, 3, 4, 7, 8, 11, 14, 15, 16, 17, 28, 33})};
}

struct Kernel {
  int64_t h, w;
};
Kernel draw_kernel(Draw& draw) {
  return draw.pick<Kernel>(
      {{1, 1}, {1, 1}, {2, 2}, {3, 3}, {3, 3}, {3, 3}, {5, 5}, {7, 7}, {1, 3}, {3, 1}, {1, 7}, {2, 3}});
}

/// Draws strides, dilations and padding of a window.
Attrs draw_window(Draw& draw, Kernel k, bool dilate) {
  Attrs attrs{{"kernel_shape", Ints{k.h, k.w}}};
  const int64_t stride = draw.pick({1, 1, 1, 2, 2, 3});
  if (stride > 1) attrs["strides"] = Ints{stride, draw.chance(80) ? stride : draw.between(1, 3)};
  Ints dilations{1, 1};
  if (dilate && draw.chance(20)) dilations = {draw.between(1, 3), draw.between(1, 3)};
  if (dilations != Ints{1, 1}) attrs["dilations"] = dilations;
  const int64_t span_h = (k.h - 1) * dilations[0], span_w = (k.w - 1) * dilations[1];
  switch (draw.between(0, 4)) {
    case 0:
      break;
    case 1:
      attrs["auto_pad"] = draw.chance(50) ? std::string("SAME_UPPER") : std::string("SAME_LOWER");
      break;
    case 2:
      attrs["pads"] =
          Ints{draw.between(0, span_h), draw.between(0, span_w), draw.between(0, span_h), draw.between(0, span_w)};
      break;
    default:
      attrs["pads"] = Ints{span_h / 2, span_w / 2, span_h / 2, span_w / 2};
      break;
  }
  return attrs;
}

/// Draws a divisor of `channels` above 1, if there is one.
int64_t draw_divisor(Draw& draw, int64_t channels) {
  std::vector<int64_t> divisors;
  for (int64_t d = 2; d <= channels; ++d) {
    if (channels % d == 0) divisors.push_back(d);
  }
  return divisors.empty() ? 1 : divisors[static_cast<size_t>(draw.between(0, std::ssize(divisors) - 1))];
}

/// Adds zeros, or occasionally other values, around an image, as in networks whose padding is separate from their
/// convolutions; or reverses the image.
ValueId add_margins(SweepNet& net, ValueId x) {
  Draw& draw = net.draw;
  if (draw.chance(15)) {
    const int64_t axis = draw.between(2, 3);
    return net.b.add("Slice", {x, net.list({-1}), net.list({-1000}), net.list({axis}), net.list({-1})});
  }
  Ints pads(8, 0);
  for (const size_t at : {2, 3, 6, 7}) pads[at] = draw.between(0, 3);
  std::vector<ValueId> inputs{x, net.list(pads)};
  if (draw.chance(20)) inputs.push_back(net.constant({}));
  const auto mode = draw.pick<std::string_view>({"constant", "constant", "constant", "edge", "reflect", "wrap"});
  return net.b.add("Pad", inputs, {{"mode", std::string(mode)}});
}

/// Adds a convolution of `x` with constant weights. Halves its output channels until the reference kernel is fast
/// enough.
ValueId add_conv(SweepNet& net, ValueId x) {
  Draw& draw = net.draw;
  if (draw.chance(10)) x = add_margins(net, x);
  const Shape in = net.shape(x);
  const Kernel k = draw_kernel(draw);
  const int64_t kind = draw.between(0, 9);
  int64_t group = 1;
  int64_t out = draw.pick({1, 3, 5, 16, 17, 24, 32, 33, 64});
  if (kind >= 7) {
    group = in[1], out = in[1] * (kind == 9 ? draw.pick({1, 2}) : 1);
  } else if (kind == 6) {
    group = draw_divisor(draw, in[1]);
    out = draw.chance(30) ? in[1] : group * draw.pick({1, 3, 8, 16});
    while (out > group && in[0] * in[2] * in[3] * in[1] / group * k.h * k.w * out > kMostMacs) out -= group;
  }
  while (group == 1 && out > 1 && in[0] * in[2] * in[3] * in[1] * k.h * k.w * out > kMostMacs) out /= 2;
  Attrs attrs = draw_window(draw, k, true);
  if (group > 1) attrs["group"] = group;
  const int64_t fan_in = in[1] / group * k.h * k.w;
  std::vector<ValueId> inputs{x,
                              net.constant({out, in[1] / group, k.h, k.w}, 1 / std::sqrt(static_cast<float>(fan_in)))};
  if (draw.chance(60)) inputs.push_back(net.constant({out}));
  return net.b.add("Conv", inputs, attrs);
}

void make_conv(SweepNet& net) {
  ValueId v = net.elementwise(add_conv(net, net.input(draw_plane(net.draw).shape())));
  net.output(v);
}

/// Convolutions whose dilations are about as large as the image, as in the pyramids of DeepLab. Most of their taps lie
/// in the padding of most pixels.
void make_wide_dilation(SweepNet& net) {
  Draw& draw = net.draw;
  const int64_t channels = draw.pick({1, 16, 17, 40}), out = draw.pick({5, 16, 32, 40});
  const int64_t h = draw.between(1, 24), w = draw.between(1, 24);
  const Kernel k = draw.pick<Kernel>({{3, 3}, {3, 3}, {1, 3}, {5, 2}});
  const Ints dilations{draw.between(1, 26), draw.between(1, 26)};
  const auto pad = [&](int64_t kernel, int64_t dilation) {
    return draw.chance(70) ? (kernel - 1) * dilation / 2 : draw.between(0, (kernel - 1) * dilation);
  };
  Ints pads{pad(k.h, dilations[0]), pad(k.w, dilations[1]), 0, 0};
  // At the end of each axis, add at least enough for one output position.
  pads[2] = std::max(pad(k.h, dilations[0]), (k.h - 1) * dilations[0] + 1 - h - pads[0]);
  pads[3] = std::max(pad(k.w, dilations[1]), (k.w - 1) * dilations[1] + 1 - w - pads[1]);
  Attrs attrs{{"dilations", dilations}, {"pads", pads}};
  if (draw.chance(25)) attrs["strides"] = Ints{draw.between(1, 3), draw.between(1, 3)};
  const ValueId x = net.elementwise(
      net.b.add("Conv", {net.input({draw.between(1, 2), 3, h, w}), net.constant({channels, 3, 1, 1}, 0.3F)}));
  const float scale = 1 / std::sqrt(static_cast<float>(channels * k.h * k.w));
  net.output(net.elementwise(net.b.add("Conv", {x, net.constant({out, channels, k.h, k.w}, scale)}, attrs)));
}

/// Convolutions with one to eight output channels: of an input, or of another convolution's result, which is blocked.
/// Rows are as long as several vectors, and kernels of one row as long as several vectors of taps.
void make_few_outputs(SweepNet& net) {
  Draw& draw = net.draw;
  const Kernel k = draw.pick<Kernel>({{1, 1}, {3, 3}, {5, 5}, {7, 3}, {2, 4}, {3, 39}, {1, 16}, {1, 37}, {1, 70}});
  const int64_t channels = draw.pick({1, 1, 2, 3, 7, 16, 20, 40}), out = draw.between(1, 8);
  const int64_t h = k.h == 1 && draw.chance(60) ? 1 : draw.between(2, 11), w = draw.between(9, h == 1 ? 400 : 75);
  ValueId x = net.input({draw.pick({1, 1, 2}), channels, h, w});
  if (draw.chance(40)) {
    const int64_t between = draw.pick({5, 16, 17, 40});
    x = net.elementwise(net.b.add("Conv", {x, net.constant({between, channels, 1, 1}, 0.3F)}));
  }
  const int64_t in = net.shape(x)[1];
  Attrs attrs = draw_window(draw, k, true);
  if (k.h == 1 && draw.chance(40)) attrs["strides"] = Ints{1, draw.between(1, 6)};
  const float scale = 1 / std::sqrt(static_cast<float>(in * k.h * k.w));
  std::vector<ValueId> inputs{x, net.constant({out, in, k.h, k.w}, scale)};
  if (draw.chance(60)) inputs.push_back(net.constant({out}));
  const ValueId v = net.elementwise(net.b.add("Conv", inputs, attrs));
  net.output(draw.chance(30) ? add_conv(net, v) : v);
}

/// A 3x3 convolution of stride 1 with enough channels for Winograd's method.
void make_winograd(SweepNet& net) {
  Draw& draw = net.draw;
  const int64_t channels = draw.pick({4, 8, 16, 17, 24, 32}), out = draw.pick({1, 8, 16, 17, 24, 32, 40});
  const Shape x{draw.between(1, 2), channels, draw.between(3, 26), draw.between(3, 26)};
  Attrs attrs{{"pads", Ints{draw.between(0, 2), draw.between(0, 2), draw.between(0, 2), draw.between(0, 2)}}};
  std::vector<ValueId> inputs{net.input(x),
                              net.constant({out, channels, 3, 3}, 1 / std::sqrt(static_cast<float>(9 * channels)))};
  if (draw.chance(60)) inputs.push_back(net.constant({out}));
  net.output(net.elementwise(net.b.add("Conv", inputs, attrs)));
}

/// Two convolutions: the second reads the halo and the unused lanes that the first and its neighbours wrote.
void make_conv_chain(SweepNet& net) {
  const ValueId x = net.input(draw_plane(net.draw).shape());
  ValueId v = net.elementwise(add_conv(net, net.draw.chance(30) ? net.b.add("Relu", {x}) : x));
  if (net.draw.chance(30)) net.output(v);
  const ValueId first = v;
  v = net.elementwise(add_conv(net, v));
  const bool joins = net.shape(v)[0] == net.shape(first)[0] && net.shape(v)[2] == net.shape(first)[2] &&
                     net.shape(v)[3] == net.shape(first)[3];
  if (joins && net.draw.chance(70)) {
    v = net.b.add("Concat", {first, v}, {{"axis", int64_t{1}}});
    if (net.draw.chance(70)) v = add_conv(net, v);
  }
  net.output(v);
}

/// A depthwise convolution of another convolution's result, which sometimes is also an output.
void make_fed_depthwise(SweepNet& net) {
  Draw& draw = net.draw;
  const Shape in{draw.pick({1, 1, 2}), draw.pick({3, 4, 8, 16, 17, 24}), draw.between(2, 20), draw.between(1, 33)};
  const int64_t channels = draw.pick({1, 5, 16, 17, 24, 32, 48}), k = draw.pick({1, 1, 1, 2, 3});
  Attrs first{{"pads", Ints{k / 2, draw.between(0, k - 1), k - 1, k / 2}}};
  if (draw.chance(20)) first["strides"] = Ints{draw.between(1, 2), draw.between(1, 2)};
  std::vector<ValueId> inputs{net.input(in), net.constant({channels, in[1], k, k}, 0.3F)};
  if (draw.chance(60)) inputs.push_back(net.constant({channels}));
  const ValueId between = net.elementwise(net.b.add("Conv", inputs, first));
  if (draw.chance(10)) net.output(between);
  const Kernel kernel = draw.pick<Kernel>({{3, 3}, {3, 3}, {3, 3}, {5, 5}, {1, 1}, {2, 3}, {1, 5}, {7, 1}});
  Attrs second = draw_window(draw, kernel, true);
  second["group"] = net.shape(between)[1];
  std::vector<ValueId> operands{between, net.constant({net.shape(between)[1], 1, kernel.h, kernel.w}, 0.3F)};
  if (draw.chance(60)) operands.push_back(net.constant({net.shape(between)[1]}));
  const ValueId v = net.elementwise(net.b.add("Conv", operands, second));
  net.output(draw.chance(40) ? add_conv(net, v) : v);
}

/// Convolutions with one to three spatial axes, and with weights that are known only at run time.
void make_other_conv(SweepNet& net) {
  Draw& draw = net.draw;
  const int64_t rank = draw.pick({1, 1, 2, 2, 3});
  Shape x{draw.between(1, 2), draw.pick({1, 3, 16, 17})};
  const int64_t groups = draw.chance(25) ? draw_divisor(draw, x[1]) : 1;
  Shape w{groups * draw.pick({1, 5, 16, 33}), x[1] / groups};
  Ints pads, strides, dilations;
  for (int64_t d = 0; d < rank; ++d) {
    x.push_back(draw.pick({3, 5, 8, 11}));
    w.push_back(draw.between(1, 3));
    strides.push_back(draw.between(1, 2));
    dilations.push_back(draw.chance(15) ? 2 : 1);
  }
  for (int64_t d = 0; d < 2 * rank; ++d) pads.push_back(draw.between(0, 2));
  const auto given = [&](const Shape& shape) { return draw.chance(50) ? net.constant(shape, 0.2F) : net.input(shape); };
  const bool depthwise = groups > 1 && groups == x[1] && groups == w[0];  // kernels need constant filters
  std::vector<ValueId> inputs{net.input(x), depthwise ? net.constant(w, 0.2F) : given(w)};
  if (draw.chance(40)) inputs.push_back(given({w[0]}));
  const ValueId v =
      net.b.add("Conv", inputs, {{"pads", pads}, {"strides", strides}, {"dilations", dilations}, {"group", groups}});
  net.output(net.elementwise(v));
}

void make_conv_transpose(SweepNet& net) {
  Draw& draw = net.draw;
  const Shape in{draw.between(1, 2), draw.pick({1, 3, 8, 16, 17, 33}), draw.between(1, 9), draw.between(1, 17)};
  const Kernel k = draw.pick<Kernel>({{1, 1}, {2, 2}, {3, 3}, {4, 4}, {3, 2}, {5, 1}});
  const bool depthwise = draw.chance(30);
  const int64_t group = depthwise ? in[1] : draw.chance(30) ? draw_divisor(draw, in[1]) : 1;
  const int64_t out = depthwise ? 1 : draw.pick({1, 3, 16, 17, 24});
  const Ints strides{draw.between(1, 3), draw.between(1, 3)};
  Attrs attrs{{"kernel_shape", Ints{k.h, k.w}}, {"strides", strides}};
  if (group > 1) attrs["group"] = group;
  if (draw.chance(60)) {
    attrs["pads"] =
        Ints{draw.between(0, k.h - 1), draw.between(0, k.w - 1), draw.between(0, k.h - 1), draw.between(0, k.w - 1)};
  }
  if (draw.chance(20)) attrs["dilations"] = Ints{draw.between(1, 2), draw.between(1, 3)};
  if (draw.chance(40)) attrs["output_padding"] = Ints{draw.between(0, strides[0] - 1), draw.between(0, strides[1] - 1)};
  std::vector<ValueId> inputs{net.input(in), net.constant({in[1], out, k.h, k.w}, 0.2F)};
  if (draw.chance(60)) inputs.push_back(net.constant({out * group}));
  net.output(net.elementwise(net.b.add("ConvTranspose", inputs, attrs)));
}

/// A pool of a convolution's result or of a network input.
void make_pool(SweepNet& net) {
  Draw& draw = net.draw;
  ValueId v = net.input(draw_plane(draw).shape());
  if (draw.chance(75)) v = net.elementwise(add_conv(net, v));
  if (draw.chance(15)) v = add_margins(net, v);
  const int64_t kind = draw.between(0, 5);
  if (kind == 0) {
    v = net.b.add(draw.chance(50) ? "GlobalAveragePool" : "GlobalMaxPool", {v});
  } else {
    const Kernel k = draw.pick<Kernel>({{1, 1}, {2, 2}, {3, 3}, {3, 3}, {5, 5}, {1, 3}, {3, 2}, {1, 17}, {2, 21}});
    const bool maximum = kind <= 3;
    Attrs attrs = draw_window(draw, k, true);
    if (draw.chance(40)) attrs["ceil_mode"] = int64_t{1};
    if (!maximum && draw.chance(50)) attrs["count_include_pad"] = int64_t{1};
    v = net.b.add(maximum ? "MaxPool" : "AveragePool", {v}, attrs);
  }
  v = net.elementwise(v);
  net.output(draw.chance(30) ? add_conv(net, v) : v);
}

/// Pools that compute a norm (LpPool), and normalisation over neighbouring channels (LRN).
void make_norm_pool(SweepNet& net) {
  Draw& draw = net.draw;
  ValueId v = net.input(draw_plane(draw).shape());
  if (draw.chance(60)) v = net.elementwise(add_conv(net, v));
  const int64_t p = draw.pick({1, 2, 2, 3});
  switch (draw.between(0, 3)) {
    case 0:
      v = net.b.add("GlobalLpPool", {v}, {{"p", p}});
      break;
    case 1:
      v = net.b.add("LRN", {v},
                    {{"size", draw.pick({1, 2, 3, 5, 8})},
                     {"alpha", draw.pick({1e-4F, 0.5F})},
                     {"beta", draw.pick({0.75F, 0.5F, 1.0F, 0.6F})},
                     {"bias", draw.pick({1.0F, 2.0F})}});
      break;
    default: {
      Attrs attrs = draw_window(draw, draw.pick<Kernel>({{1, 1}, {2, 2}, {3, 3}, {1, 3}, {3, 2}}), true);
      attrs["p"] = p;
      v = net.b.add("LpPool", {v}, attrs);
    }
  }
  v = net.elementwise(v);
  net.output(draw.chance(30) ? add_conv(net, v) : v);
}

/// One value per channel, computed from an image and then combined with that image.
void make_gate(SweepNet& net) {
  Draw& draw = net.draw;
  Plane plane = draw_plane(draw);
  const ValueId image = net.elementwise(add_conv(net, net.input(plane.shape())));
  ValueId gate = net.b.add(draw.chance(70) ? "GlobalAveragePool" : "GlobalMaxPool", {image});
  if (draw.chance(50)) gate = net.b.add("Conv", {gate, net.constant({net.shape(gate)[1], net.shape(gate)[1], 1, 1})});
  if (draw.chance(60)) gate = net.b.add(draw.chance(50) ? "Sigmoid" : "Exp", {gate});
  ValueId v = net.b.add(draw.pick<std::string_view>({"Mul", "Div", "Add", "Sub", "Max"}), {image, gate});
  v = net.elementwise(v);
  net.output(draw.chance(70) ? add_conv(net, v) : v);
}

/// An image whose channels are multiplied by factors computed from it, and a 1x1 convolution of the product.
void make_scaled(SweepNet& net) {
  Draw& draw = net.draw;
  const Shape in{draw.chance(85) ? 1 : 2, draw.pick({3, 16, 17}), draw.between(4, 20), draw.between(4, 20)};
  const int64_t channels = draw.pick({5, 16, 17, 32, 40}), out = draw.pick({1, 8, 16, 17, 33});
  const auto point = [&](ValueId x, int64_t filters) {
    return net.b.add("Conv", {x, net.constant({filters, net.shape(x)[1], 1, 1}, 0.3F)});
  };
  const ValueId image = net.b.add("Relu", {point(net.input(in), channels)});
  ValueId factors = net.b.add("GlobalAveragePool", {image});
  factors = net.b.add(draw.chance(50) ? "Sigmoid" : "HardSigmoid", {point(factors, channels)});
  const ValueId scaled = net.b.add("Mul", draw.chance(70) ? std::vector{image, factors} : std::vector{factors, image});
  if (draw.chance(10)) net.output(scaled);
  net.output(net.elementwise(point(scaled, out)));
}

/// A depthwise convolution, of an input or of another convolution's result, and the mean of its result. Usually both
/// are used.
void make_squeezed(SweepNet& net) {
  Draw& draw = net.draw;
  const Shape in{draw.pick({1, 1, 2}), draw.pick({3, 16, 17, 32, 40}), draw.pick({1, 2, 5, 9, 14}),
                 draw.between(1, 33)};
  ValueId x = net.input(in);
  if (draw.chance(50)) {
    const int64_t channels = draw.pick({5, 16, 17, 24, 32});
    x = net.elementwise(net.b.add("Conv", {x, net.constant({channels, in[1], 1, 1}, 0.3F)}));
  }
  const Kernel kernel = draw.pick<Kernel>({{3, 3}, {3, 3}, {3, 3}, {5, 5}, {1, 1}, {1, 5}});
  Attrs window = draw_window(draw, kernel, true);
  window["group"] = net.shape(x)[1];
  std::vector<ValueId> operands{x, net.constant({net.shape(x)[1], 1, kernel.h, kernel.w}, 0.3F)};
  if (draw.chance(60)) operands.push_back(net.constant({net.shape(x)[1]}));
  ValueId image = net.b.add("Conv", operands, window);
  if (draw.chance(40)) image = net.b.add("Mul", {image, net.b.add("Sigmoid", {image})});
  if (draw.chance(60)) image = net.elementwise(image);
  const Ints axes = draw.pick<Ints>({{2, 3}, {2, 3}, {2, 3}, {3}, {-1, -2}, {2}});
  ValueId mean = draw.chance(60) ? net.b.add("GlobalAveragePool", {image})
                                 : net.b.add("ReduceMean", {image, net.list(axes)}, {{"keepdims", int64_t{1}}});
  if (draw.chance(40)) mean = net.b.add("Sigmoid", {mean});
  if (draw.chance(30)) net.output(mean);
  if (draw.chance(20)) return net.output(net.b.add("Relu", {mean}));  // only the mean reads the image
  const ValueId v = net.elementwise(net.b.add("Mul", {image, mean}));
  net.output(draw.chance(50) ? add_conv(net, v) : v);
}

/// The channels of an image in a different order: a shuffle as exporters write it, or a random order.
ValueId reordered(SweepNet& net, ValueId v) {
  Draw& draw = net.draw;
  const Shape shape = net.shape(v);
  const int64_t groups = draw.pick({2, 3, 4, 8});
  if (shape[1] % groups == 0 && draw.chance(70)) {
    const ValueId split =
        net.b.add("Reshape", {v, net.list({shape[0], groups, shape[1] / groups, shape[2], shape[3]})});
    const ValueId swapped = net.b.add("Transpose", {split}, {{"perm", Ints{0, 2, 1, 3, 4}}});
    return net.b.add("Reshape", {swapped, net.list(shape)});
  }
  Ints order;
  for (int64_t k = draw.between(1, 2 * shape[1]); k > 0; --k) order.push_back(draw.between(-shape[1], shape[1] - 1));
  return net.b.add("Gather", {v, net.list(order)}, {{"axis", int64_t{1}}});
}

/// Two runs of a convolution's channels, which may be whole blocks, that are read separately and then joined again.
void make_parts(SweepNet& net) {
  Draw& draw = net.draw;
  Plane plane = draw_plane(draw);
  const int64_t channels = draw.pick({8, 16, 24, 32, 48, 64, 17, 33});
  const ValueId whole =
      net.elementwise(net.b.add("Conv", {net.input(plane.shape()), net.constant({channels, plane.c, 1, 1}, 0.3F)}));
  const int64_t first = draw.chance(60) ? channels / 2 : draw.between(1, channels - 1);
  std::vector<ValueId> parts;
  if (draw.chance(60)) {
    GraphBuilder::Options two;
    two.output_count = 2;
    parts = net.b.add("Split", {whole, net.list({first, channels - first})}, {{"axis", int64_t{1}}}, two);
  } else {
    parts = {net.b.add("Slice", {whole, net.list({0}), net.list({first}), net.list({1})}),
             net.b.add("Slice", {whole, net.list({first}), net.list({channels}), net.list({-3})})};
  }
  if (draw.chance(15)) net.output(parts[0]);
  std::vector<ValueId> joined = parts;
  joined.push_back(net.elementwise(add_conv(net, draw.chance(50) ? parts[1] : parts[0])));
  if (draw.chance(20)) std::swap(joined[0], joined[1]);
  const Shape &a = net.shape(joined[2]), &b = net.shape(whole);
  if (a[2] != b[2] || a[3] != b[3]) {
    net.output(joined[2]);
    joined.pop_back();
  }
  ValueId v = net.b.add("Concat", joined, {{"axis", int64_t{1}}});
  if (draw.chance(40)) v = reordered(net, v);
  v = net.elementwise(v);
  net.output(draw.chance(70) ? add_conv(net, v) : v);
}

/// A normalisation of a convolution's result over single channels or over groups, which may share blocks.
void make_normalized(SweepNet& net) {
  Draw& draw = net.draw;
  const Plane plane = draw_plane(draw);
  const int64_t each = draw.pick({1, 2, 3, 5, 8, 10, 16, 20, 32}), groups = draw.pick({1, 2, 3, 4, 6});
  const ValueId weights = net.constant({each * groups, plane.c, 1, 1}, 0.3F);
  ValueId v = net.elementwise(net.b.add("Conv", {net.input(plane.shape()), weights}));
  const int64_t channels = net.shape(v)[1];
  const std::vector<ValueId> inputs{v, net.constant({channels}), net.constant({channels})};
  v = draw.chance(25) ? net.b.add("InstanceNormalization", inputs, {{"epsilon", 1e-3F}})
                      : net.b.add("GroupNormalization", inputs, {{"num_groups", groups}, {"epsilon", 1e-3F}});
  v = net.elementwise(v);
  net.output(draw.chance(70) ? add_conv(net, v) : v);
}

/// An image scaled up or down, then concatenated with or added to another one of the new size.
void make_resize(SweepNet& net) {
  Draw& draw = net.draw;
  const ValueId v = net.elementwise(add_conv(net, net.input(draw_plane(draw).shape())));
  const Shape& s = net.shape(v);
  const Shape size{s[0], s[1], std::max<int64_t>(1, s[2] * draw.between(1, 4) / 2),
                   std::max<int64_t>(1, s[3] * draw.between(1, 4) / 2)};
  Attrs attrs{{"mode", std::string(draw.chance(50) ? "nearest" : "linear")},
              {"coordinate_transformation_mode",
               draw.pick<std::string>({"half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"})}};
  const ValueId resized = net.elementwise(net.b.add("Resize", {v, kNone, kNone, net.list(size)}, attrs));
  const ValueId skip = net.b.add("Relu", {net.input(net.shape(resized))});
  const ValueId joined = draw.chance(50) ? net.b.add("Concat", {resized, skip}, {{"axis", int64_t{1}}})
                                         : net.b.add("Add", {resized, skip});
  net.output(draw.chance(60) ? add_conv(net, joined) : net.elementwise(joined));
}

class WindowSweep : public testing::TestWithParam<NetKind> {};

TEST_P(WindowSweep, AgreesWithTheReference) { sweep(GetParam()); }

INSTANTIATE_TEST_SUITE_P(
    Windows, WindowSweep,
    testing::Values(NetKind{"Conv", make_conv, 40, {"conv2d_direct", "conv2d_depthwise"}, true},
                    NetKind{"Winograd", make_winograd, 30, {"conv2d_winograd", "conv2d_direct"}},
                    NetKind{"WideDilation", make_wide_dilation, 40, {"conv2d_direct"}, true},
                    NetKind{"FewOutputs", make_few_outputs, 40, {"conv2d_pixels"}, true},
                    NetKind{"ConvChain", make_conv_chain, 24, {"conv2d_direct"}, true},
                    NetKind{"FedDepthwise", make_fed_depthwise, 40, {"conv2d_then_depthwise"}, true},
                    NetKind{"OtherConv", make_other_conv, 40, {"conv2d_direct", "matmul_tiled"}, true},
                    NetKind{"ConvTranspose", make_conv_transpose, 24, {"conv_transpose"}, true},
                    NetKind{"Pool", make_pool, 30, {"pool_rows"}, true}, NetKind{"Gate", make_gate, 20, {"map"}},
                    NetKind{"Scaled", make_scaled, 20, {"conv2d_direct"}},
                    NetKind{"Parts", make_parts, 60, {"take_channels"}, true},
                    NetKind{"Normalized", make_normalized, 30, {"normalize_groups"}},
                    NetKind{"Resize", make_resize, 20, {"resize_table"}},
                    NetKind{"Squeezed", make_squeezed, 40, {"conv2d_depthwise", "conv2d_then_depthwise"}, true},
                    NetKind{"NormPool", make_norm_pool, 30, {"pool_rows"}, true}),
    [](const auto& family) { return std::string(family.param.name); });

TEST(Windows, PoolsOfAnyWindowHaveKernels) {
  SweepNet net(5);
  const ValueId x = net.input({1, 5, 9, 70});
  net.output(net.b.add("MaxPool", {x}, {{"kernel_shape", Ints{3, 20}}, {"pads", Ints{1, 9, 1, 10}}}));
  net.output(net.b.add("AveragePool", {x},
                       {{"kernel_shape", Ints{2, 3}}, {"dilations", Ints{3, 12}}, {"pads", Ints{2, 20, 1, 7}}}));
  net.output(
      net.b.add("AveragePool", {x},
                {{"kernel_shape", Ints{9, 70}}, {"pads", Ints{8, 69, 8, 69}}, {"count_include_pad", int64_t{1}}}));
  for (const Target& target : targets_here()) {
    const Compiled compiled = compile_for(net.graph(), target);
    const auto program = std::make_shared<const Program>(compiled.plan);
    EXPECT_EQ(run_guarded(program, net.inputs(), evaluate(net.graph(), net.inputs()), {.rtol = 1e-4, .atol = 1e-5}, 0),
              "");
    for (const Step& step : compiled.plan.steps) EXPECT_NE(step.kind, StepKind::reference) << step.name;
  }
}

/// As in YOLO's C2f: the halves of a convolution and the values computed from the second half are joined.
TEST(Windows, ChannelHalvesAreReadAndJoinedInPlace) {
  SweepNet net(3);
  const auto conv = [&](ValueId x, int64_t filters, int64_t k) {
    const ValueId w = net.constant({filters, net.shape(x)[1], k, k}, 0.1F);
    return net.b.add("Relu", {net.b.add("Conv", {x, w}, {{"pads", Ints{k / 2, k / 2, k / 2, k / 2}}})});
  };
  GraphBuilder::Options two;
  two.output_count = 2;
  const auto halves = net.b.add("Split", {conv(net.input({1, 16, 9, 11}), 64, 1)},
                                {{"axis", int64_t{1}}, {"num_outputs", int64_t{2}}}, two);
  const ValueId third = net.b.add("Add", {halves[1], conv(conv(halves[1], 32, 3), 32, 3)});
  net.output(conv(net.b.add("Concat", {halves[0], halves[1], third}, {{"axis", int64_t{1}}}), 32, 1));
  for (const Target& target : targets_here()) {
    const Compiled compiled = compile_for(net.graph(), target);
    const auto program = std::make_shared<const Program>(compiled.plan);
    EXPECT_EQ(run_guarded(program, net.inputs(), evaluate(net.graph(), net.inputs()), {.rtol = 1e-3, .atol = 1e-4}, 0),
              "");
    int64_t copies = 0;
    for (const Step& step : compiled.plan.steps) copies += step.role == StepRole::relayout ? 1 : 0;
    EXPECT_EQ(copies, 2) << "the input and the output alone" << steps_text(compiled.plan);
  }
}

}  // namespace
}  // namespace kilter
