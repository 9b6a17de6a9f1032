// Howard et al., "MobileNets" (2017), and Sandler et al., "MobileNetV2: Inverted Residuals and Linear Bottlenecks"
// (2018). Batch normalisation is folded into the convolutions.
#include <fmt/format.h>

#include <algorithm>

#include "zoo/families.h"
#include "zoo/net.h"

namespace kilter::zoo {
namespace {

/// channels * width rounded to a multiple of 8, at least 8 and at least nine tenths of the exact number.
int64_t scaled(int64_t channels, double width) {
  const double exact = static_cast<double>(channels) * width;
  const int64_t rounded = std::max<int64_t>(8, static_cast<int64_t>(exact + 4) / 8 * 8);
  return static_cast<double>(rounded) < 0.9 * exact ? rounded + 8 : rounded;
}

ValueId conv_relu6(Net& net, const std::string& path, ValueId x, const ConvSpec& spec) {
  return net.relu6(path + ".relu6", net.conv(path, x, spec));
}

ValueId depthwise(Net& net, const std::string& path, ValueId x, int64_t stride) {
  const int64_t channels = net.channels(x);
  return conv_relu6(net, path, x, {.out = channels, .kernel = 3, .stride = stride, .pad = 1, .group = channels});
}

Graph mobilenet_v1(const Options& options) {
  struct Stage {
    int64_t channels, blocks, stride;
  };
  Net net(options);
  ValueId x =
      conv_relu6(net, "conv_stem", net.image(), {.out = scaled(32, options.width), .kernel = 3, .stride = 2, .pad = 1});
  int64_t block = 0;
  for (const Stage& s : {Stage{64, 1, 1}, Stage{128, 2, 2}, Stage{256, 2, 2}, Stage{512, 6, 2}, Stage{1024, 2, 2}}) {
    for (int64_t i = 0; i < s.blocks; ++i, ++block) {
      const std::string path = fmt::format("blocks.{}", block);
      x = depthwise(net, path + ".conv_dw", x, i == 0 ? s.stride : 1);
      x = conv_relu6(net, path + ".conv_pw", x, {.out = scaled(s.channels, options.width)});
    }
  }
  net.output(net.dense("classifier", net.global_pool("global_pool", x), options.classes));
  return net.take();
}

ValueId inverted_residual(Net& net, const std::string& path, ValueId x, int64_t expansion, int64_t out,
                          int64_t stride) {
  const int64_t in = net.channels(x);
  ValueId y = x;
  if (expansion != 1) y = conv_relu6(net, path + ".expand", y, {.out = in * expansion});
  y = depthwise(net, path + ".depthwise", y, stride);
  const bool residual = stride == 1 && in == out;
  y = net.conv(path + ".project", y, {.out = out, .gain = residual ? kBranchGain : kLinearGain});
  return residual ? net.add(path + ".add", x, y) : y;
}

Graph mobilenet_v2(const Options& options) {
  struct Stage {
    int64_t expansion, channels, blocks, stride;
  };
  const std::vector<Stage> stages = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                                     {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
  Net net(options);
  ValueId x = conv_relu6(net, "features.0", net.image(),
                         {.out = scaled(32, options.width), .kernel = 3, .stride = 2, .pad = 1});
  int64_t block = 1;
  for (const Stage& s : stages) {
    for (int64_t i = 0; i < s.blocks; ++i, ++block) {
      x = inverted_residual(net, fmt::format("features.{}", block), x, s.expansion, scaled(s.channels, options.width),
                            i == 0 ? s.stride : 1);
    }
  }
  const int64_t last = scaled(1280, std::max(1.0, options.width));
  x = conv_relu6(net, fmt::format("features.{}", block), x, {.out = last});
  net.output(net.dense("classifier", net.global_pool("global_pool", x), options.classes));
  return net.take();
}

}  // namespace

std::vector<Row> mobilenet_rows() {
  return {
      {.name = "mobilenet_v1",
       .aliases = {"mobilenet"},
       .summary = "MobileNet v1; has a width multiplier",
       .size = 224,
       .build = mobilenet_v1,
       .has_width = true},
      {.name = "mobilenet_v2",
       .aliases = {"mobilenet-v2"},
       .summary = "MobileNet v2; has a width multiplier",
       .size = 224,
       .build = mobilenet_v2,
       .has_width = true},
  };
}

}  // namespace kilter::zoo
