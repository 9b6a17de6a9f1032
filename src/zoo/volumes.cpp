// Networks for volumes [batch, channels, frames, height, width]: R3D-18 of Tran et al., "A Closer Look at
// Spatiotemporal Convolutions for Action Recognition" (2018), and the 3D U-Net of Cicek et al., "3D U-Net: Learning
// Dense Volumetric Segmentation from Sparse Annotation" (2016), with padding, so that the labels are as large as the
// input. Batch normalisation is folded into the convolutions.
#include <fmt/format.h>

#include "zoo/families.h"
#include "zoo/net.h"

namespace kilter::zoo {
namespace {

constexpr int64_t kFrames = 16;

ValueId volume(Net& net) {
  const Options& o = net.options();
  return net.input("input", {o.batch, 3, kFrames, o.size, o.size});
}

ValueId conv_relu(Net& net, const std::string& path, ValueId x, const VolumeSpec& spec) {
  return net.relu(path + ".relu", net.conv3d(path, x, spec));
}

ValueId unit(Net& net, const std::string& path, ValueId x, int64_t out, int64_t stride) {
  ValueId y = conv_relu(net, path + ".conv1", x, {.out = out, .kernel = {3, 3, 3}, .stride = {stride, stride, stride}});
  y = net.conv3d(path + ".conv2", y, {.out = out, .kernel = {3, 3, 3}, .gain = kBranchGain});
  const VolumeSpec project{.out = out, .stride = {stride, stride, stride}, .gain = kLinearGain};
  const ValueId skip = stride != 1 ? net.conv3d(path + ".downsample", x, project) : x;
  return net.relu(path + ".relu", net.add(path + ".add", y, skip));
}

Graph r3d18(const Options& options) {
  Net net(options);
  ValueId x = conv_relu(net, "stem", volume(net), {.out = 64, .kernel = {3, 7, 7}, .stride = {1, 2, 2}});
  for (int64_t stage = 0; stage < 4; ++stage) {
    for (int64_t i = 0; i < 2; ++i)
      x = unit(net, fmt::format("layer{}.{}", stage + 1, i), x, int64_t{64} << stage, stage > 0 && i == 0 ? 2 : 1);
  }
  net.output(net.dense("fc", net.global_pool("avgpool", x), options.classes));
  return net.take();
}

ValueId two(Net& net, const std::string& path, ValueId x, int64_t first, int64_t second) {
  x = conv_relu(net, path + ".conv1", x, {.out = first, .kernel = {3, 3, 3}});
  return conv_relu(net, path + ".conv2", x, {.out = second, .kernel = {3, 3, 3}});
}

Graph unet3d(const Options& options) {
  constexpr int64_t kLevels = 4;
  Net net(options);
  ValueId x = volume(net);
  std::vector<ValueId> skips;
  for (int64_t level = 0; level < kLevels; ++level) {
    x = two(net, fmt::format("down{}", level + 1), x, int64_t{32} << level, int64_t{64} << level);
    if (level + 1 == kLevels) break;
    skips.push_back(x);
    const std::vector<int64_t> halves{2, 2, 2};
    x = net.op("MaxPool", fmt::format("pool{}", level + 1), {x}, {{"kernel_shape", halves}, {"strides", halves}});
  }
  for (int64_t level = kLevels - 1; level-- > 0;) {
    const std::string path = fmt::format("up{}", level + 1);
    x = net.concat(path + ".concat", {skips.back(), net.double_volume(path, x)});
    skips.pop_back();
    x = two(net, path, x, int64_t{64} << level, int64_t{64} << level);
  }
  net.output(net.conv3d("labels", x, {.out = options.classes, .gain = kLinearGain}));
  return net.take();
}

}  // namespace

std::vector<Row> volume_rows() {
  return {
      {.name = "r3d18",
       .aliases = {},
       .summary = "R3D-18: ResNet-18 with 3x3x3 convolutions, 16 frames",
       .size = 112,
       .build = r3d18,
       .classes = 400,
       .frames = kFrames},
      {.name = "unet3d",
       .aliases = {},
       .summary = "3D U-Net, 16 frames",
       .size = 64,
       .build = unet3d,
       .classes = 3,
       .least_size = 8,
       .size_step = 8,
       .frames = kFrames},
  };
}

}  // namespace kilter::zoo
