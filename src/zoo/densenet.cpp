// Huang et al., "Densely Connected Convolutional Networks" (2016), 121 layers. A batch normalisation is folded into the
// convolution before it; those that follow no convolution are kept, before the activation.
#include <fmt/format.h>

#include "zoo/families.h"
#include "zoo/net.h"

namespace kilter::zoo {
namespace {

constexpr int64_t kGrowth = 32;
constexpr int64_t kBottleneck = 4 * kGrowth;

ValueId norm_relu(Net& net, const std::string& path, ValueId x) {
  return net.relu(path + ".relu", net.batch_norm(path, x));
}

/// Computes kGrowth new features from the joined features of all earlier layers.
ValueId dense_layer(Net& net, const std::string& path, const std::vector<ValueId>& features) {
  const ValueId joined = features.size() == 1 ? features[0] : net.concat(path + ".concat", features);
  const ValueId narrow = net.conv_relu(path + ".conv1", norm_relu(net, path + ".norm1", joined), {.out = kBottleneck});
  return net.conv(path + ".conv2", narrow, {.out = kGrowth, .kernel = 3, .pad = 1, .bias = false, .gain = kLinearGain});
}

Graph densenet(const Options& options, const std::vector<int64_t>& blocks) {
  Net net(options);
  ValueId x = net.conv_relu("conv0", net.image(), {.out = 64, .kernel = 7, .stride = 2, .pad = 3});
  x = net.max_pool("pool0", x, {.kernel = 3, .stride = 2, .pad = 1});
  for (size_t b = 0; b < blocks.size(); ++b) {
    const std::string block = fmt::format("denseblock{}", b + 1);
    std::vector<ValueId> features = {x};
    for (int64_t i = 0; i < blocks[b]; ++i) {
      features.push_back(dense_layer(net, fmt::format("{}.denselayer{}", block, i + 1), features));
    }
    x = net.concat(block + ".concat", features);
    if (b + 1 == blocks.size()) break;
    const std::string transition = fmt::format("transition{}", b + 1);
    x = norm_relu(net, transition + ".norm", x);
    x = net.conv(transition + ".conv", x, {.out = net.channels(x) / 2, .bias = false, .gain = kLinearGain});
    x = net.average_pool(transition + ".pool", x, {.kernel = 2, .stride = 2});
  }
  x = net.global_pool("avgpool", norm_relu(net, "norm5", x));
  net.output(net.dense("classifier", x, options.classes));
  return net.take();
}

}  // namespace

std::vector<Row> densenet_rows() {
  return {{.name = "densenet121",
           .aliases = {"densenet-121"},
           .summary = "DenseNet-121",
           .size = 224,
           .build = [](const Options& o) { return densenet(o, {6, 12, 24, 16}); },
           .least_size = 29}};
}

}  // namespace kilter::zoo
