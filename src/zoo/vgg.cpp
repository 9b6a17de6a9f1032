// Simonyan and Zisserman, "Very Deep Convolutional Networks for Large-Scale Image Recognition" (2014), columns A, B, D,
// E. The first dense layer reads all features, so its size depends on the image size.
#include <fmt/format.h>

#include "zoo/families.h"
#include "zoo/net.h"

namespace kilter::zoo {
namespace {

constexpr int64_t kHidden = 4096;

Graph vgg(const Options& options, const std::vector<int64_t>& convs_of_stage) {
  Net net(options);
  ValueId x = net.image();
  int64_t channels = 64;
  for (size_t stage = 0; stage < convs_of_stage.size(); ++stage) {
    for (int64_t i = 0; i < convs_of_stage[stage]; ++i) {
      x = net.conv_relu(fmt::format("conv{}_{}", stage + 1, i + 1), x, {.out = channels, .kernel = 3, .pad = 1});
    }
    x = net.max_pool(fmt::format("pool{}", stage + 1), x, {.kernel = 2, .stride = 2});
    if (channels < 512) channels *= 2;
  }
  x = net.flatten("flatten", x);
  x = net.relu("relu6", net.dense("fc6", x, kHidden, kReluGain));
  x = net.relu("relu7", net.dense("fc7", x, kHidden, kReluGain));
  net.output(net.dense("fc8", x, options.classes));
  return net.take();
}

Row row(std::string_view name, std::string_view alias, std::string_view summary, Graph (*build)(const Options&)) {
  return {.name = name, .aliases = {alias}, .summary = summary, .size = 224, .build = build, .least_size = 32};
}

}  // namespace

std::vector<Row> vgg_rows() {
  return {
      row("vgg11", "vgg-11", "VGG-11", [](const Options& o) { return vgg(o, {1, 1, 2, 2, 2}); }),
      row("vgg13", "vgg-13", "VGG-13", [](const Options& o) { return vgg(o, {2, 2, 2, 2, 2}); }),
      row("vgg16", "vgg-16", "VGG-16", [](const Options& o) { return vgg(o, {2, 2, 3, 3, 3}); }),
      row("vgg19", "vgg-19", "VGG-19", [](const Options& o) { return vgg(o, {2, 2, 4, 4, 4}); }),
  };
}

}  // namespace kilter::zoo
