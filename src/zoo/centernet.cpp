// Zhou et al., "Objects as Points" (2019), on the backbone DLA-34 of Yu et al., "Deep Layer Aggregation" (2018), with
// plain convolutions. Batch normalisation is folded into the convolutions. centernet_dla34 upsamples back to a quarter
// of the image's size in three steps that add features; centernet_dla34_tvm aggregates features iteratively by
// concatenation, as in TVM's reports.
#include <fmt/format.h>

#include <array>

#include "zoo/families.h"
#include "zoo/net.h"

namespace kilter::zoo {
namespace {

constexpr int64_t kHeadChannels = 256;
constexpr size_t kScales = 4;
/// Channels of the features at a quarter, an eighth, a sixteenth and a 32nd of the image's size.
constexpr std::array<int64_t, kScales> kChannels = {64, 128, 256, 512};

using Features = std::array<ValueId, kScales>;

ConvSpec three(int64_t out, int64_t stride = 1) { return {.out = out, .kernel = 3, .stride = stride, .pad = 1}; }

ValueId basic_block(Net& net, const std::string& path, ValueId x, ValueId skip, int64_t out, int64_t stride) {
  ConvSpec second = three(out);
  second.gain = kBranchGain;
  const ValueId y = net.conv(path + ".conv2", net.conv_relu(path + ".conv1", x, three(out, stride)), second);
  return net.relu(path + ".relu", net.add(path + ".add", y, skip));
}

/// Two basic blocks, of which the first halves height and width when `stride` is 2, joined with `children` by a 1x1
/// convolution.
ValueId leaf_tree(Net& net, const std::string& path, ValueId x, int64_t out, int64_t stride,
                  std::vector<ValueId> children, bool keeps_input) {
  ValueId bottom = x;
  if (stride == 2) bottom = net.max_pool(path + ".downsample", x, {.kernel = 2, .stride = 2});
  if (keeps_input) children.push_back(bottom);
  const ValueId skip =
      net.channels(bottom) == out ? bottom : net.conv(path + ".project", bottom, {.out = out, .gain = kLinearGain});
  const ValueId first = basic_block(net, path + ".tree1", x, skip, out, stride);
  const ValueId second = basic_block(net, path + ".tree2", first, first, out, 1);
  children.insert(children.begin(), {second, first});
  return net.conv_relu(path + ".root", net.concat(path + ".concat", children), {.out = out});
}

/// Two leaf trees; the second also joins the halved input and the result of the first.
ValueId deep_tree(Net& net, const std::string& path, ValueId x, int64_t out) {
  const ValueId bottom = net.max_pool(path + ".downsample", x, {.kernel = 2, .stride = 2});
  const ValueId first = leaf_tree(net, path + ".tree1", x, out, 2, {}, false);
  return leaf_tree(net, path + ".tree2", first, out, 1, {bottom, first}, false);
}

Features dla34(Net& net, ValueId image) {
  ValueId x = net.conv_relu("base", image, {.out = 16, .kernel = 7, .pad = 3});
  x = net.conv_relu("level0", x, three(16));
  x = net.conv_relu("level1", x, three(32, 2));
  Features features{};
  features[0] = leaf_tree(net, "level2", x, kChannels[0], 2, {}, false);
  features[1] = deep_tree(net, "level3", features[0], kChannels[1]);
  features[2] = deep_tree(net, "level4", features[1], kChannels[2]);
  features[3] = leaf_tree(net, "level5", features[2], kChannels[3], 2, {}, true);
  return features;
}

ValueId neck_adding(Net& net, const Features& features) {
  ValueId x = features.back();
  for (size_t scale = kScales - 1; scale-- > 0;) {
    const std::string path = fmt::format("neck{}", kScales - 2 - scale);
    x = net.conv_relu(path + ".proj", x, three(kChannels[scale]));
    x = net.add(path + ".add", net.upsample(path + ".up", x, 2), features[scale]);
    x = net.conv_relu(path + ".node", x, three(kChannels[scale]));
  }
  return x;
}

/// Round r brings the features of the r + 1 coarsest scales, each through a projection, to the size of the next finer
/// one and joins each with its finer neighbour.
ValueId neck_aggregating(Net& net, Features features) {
  for (size_t round = 0; round + 1 < kScales; ++round) {
    const size_t finest = kScales - 2 - round;
    const int64_t out = kChannels[finest];
    for (size_t i = finest + 1; i < kScales; ++i) {
      const std::string path = fmt::format("ida_{}.{}", round, i - finest);
      ValueId x = net.conv_relu(path + ".proj", features[i], {.out = out});
      x = net.concat(path + ".concat", {features[i - 1], net.upsample(path + ".up", x, 2)});
      features[i] = net.conv_relu(path + ".node", x, three(out));
    }
  }
  return features.back();
}

void heads(Net& net, ValueId x, int64_t classes) {
  struct Head {
    std::string_view name;
    std::string_view output;
    int64_t channels;
  };
  for (const Head& head : {Head{"heatmap", "output", classes}, Head{"size", "size", 2}, Head{"offset", "offset", 2}}) {
    const std::string path = fmt::format("head_{}", head.name);
    const ValueId y = net.conv_relu(path + ".0", x, three(kHeadChannels));
    net.output(net.conv(path + ".1", y, {.out = head.channels, .gain = kLinearGain}), std::string(head.output));
  }
}

Graph centernet(const Options& options) {
  Net net(options);
  heads(net, neck_adding(net, dla34(net, net.image())), options.classes);
  return net.take();
}

Graph centernet_tvm(const Options& options) {
  Net net(options);
  heads(net, neck_aggregating(net, dla34(net, net.image("data"))), options.classes);
  return net.take();
}

}  // namespace

std::vector<Row> centernet_rows() {
  return {
      {.name = "centernet_dla34",
       .aliases = {"centernet"},
       .summary = "CenterNet with the backbone DLA-34; outputs: heat map, sizes, offsets",
       .size = 608,
       .build = centernet,
       .classes = 80,
       .least_size = 32,
       .size_step = 32},
      {.name = "centernet_dla34_tvm",
       .aliases = {},
       .summary = "CenterNet with DLA-34 as in TVM's reports: 30 distinct convolutions, 7 classes",
       .size = 608,
       .build = centernet_tvm,
       .classes = 7,
       .least_size = 32,
       .size_step = 32},
  };
}

}  // namespace kilter::zoo
