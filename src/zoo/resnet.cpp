// Residual networks: He et al., "Deep Residual Learning for Image Recognition" (2015), in the form with the stride in
// the 3x3 convolution of the bottleneck; and, for NAME_tvm, the pre-activation form from "Identity Mappings in Deep
// Residual Networks" (2016), with the stride in the first convolution of the unit.
#include <fmt/format.h>

#include "zoo/families.h"
#include "zoo/net.h"

namespace kilter::zoo {
namespace {

constexpr int64_t kStages = 4;

struct Form {
  std::vector<int64_t> units;  ///< of each stage
  bool bottleneck;

  int64_t out(int64_t stage) const { return inner(stage) * (bottleneck ? 4 : 1); }
  static int64_t inner(int64_t stage) { return int64_t{64} << stage; }
};

// Batch normalisation is folded into the convolutions.
ValueId unit(Net& net, const std::string& path, ValueId x, const Form& form, int64_t stage, int64_t stride) {
  const int64_t inner = Form::inner(stage);
  const int64_t out = form.out(stage);
  ValueId y = x;
  if (form.bottleneck) {
    y = net.conv_relu(path + ".conv1", y, {.out = inner});
    y = net.conv_relu(path + ".conv2", y, {.out = inner, .kernel = 3, .stride = stride, .pad = 1});
    y = net.conv(path + ".conv3", y, {.out = out, .gain = kBranchGain});
  } else {
    y = net.conv_relu(path + ".conv1", y, {.out = inner, .kernel = 3, .stride = stride, .pad = 1});
    y = net.conv(path + ".conv2", y, {.out = out, .kernel = 3, .pad = 1, .gain = kBranchGain});
  }
  const bool project = stride != 1 || net.channels(x) != out;
  const ValueId skip =
      project ? net.conv(path + ".downsample", x, {.out = out, .stride = stride, .gain = kLinearGain}) : x;
  return net.relu(path + ".relu", net.add(path + ".add", y, skip));
}

Graph resnet(const Options& options, const Form& form) {
  Net net(options);
  ValueId x = net.conv_relu("conv1", net.image(), {.out = 64, .kernel = 7, .stride = 2, .pad = 3});
  x = net.max_pool("maxpool", x, {.kernel = 3, .stride = 2, .pad = 1});
  for (int64_t stage = 0; stage < kStages; ++stage) {
    for (int64_t i = 0; i < form.units[static_cast<size_t>(stage)]; ++i) {
      const int64_t stride = stage > 0 && i == 0 ? 2 : 1;
      x = unit(net, fmt::format("layer{}.{}", stage + 1, i), x, form, stage, stride);
    }
  }
  net.output(net.dense("fc", net.global_pool("avgpool", x), options.classes));
  return net.take();
}

ValueId norm_relu(Net& net, const std::string& path, ValueId x) {
  return net.relu(path + ".relu", net.batch_norm(path, x));
}

// The first unit of every stage projects its input, even if the shape stays the same.
ValueId tvm_unit(Net& net, const std::string& path, ValueId x, const Form& form, int64_t stage, int64_t stride,
                 bool project) {
  const int64_t inner = Form::inner(stage);
  const int64_t out = form.out(stage);
  const ValueId active = norm_relu(net, path + "_bn1", x);
  ValueId y = active;
  if (form.bottleneck) {
    y = net.conv(path + "_conv1", y, {.out = inner, .stride = stride, .bias = false});
    y = net.conv(path + "_conv2", norm_relu(net, path + "_bn2", y),
                 {.out = inner, .kernel = 3, .pad = 1, .bias = false});
    y = net.conv(path + "_conv3", norm_relu(net, path + "_bn3", y), {.out = out, .bias = false, .gain = kBranchGain});
  } else {
    y = net.conv(path + "_conv1", y, {.out = inner, .kernel = 3, .stride = stride, .pad = 1, .bias = false});
    y = net.conv(path + "_conv2", norm_relu(net, path + "_bn2", y),
                 {.out = out, .kernel = 3, .pad = 1, .bias = false, .gain = kBranchGain});
  }
  const ValueId skip =
      project ? net.conv(path + "_sc", active, {.out = out, .stride = stride, .bias = false, .gain = kLinearGain}) : x;
  return net.add(path + "_add", y, skip);
}

Graph resnet_tvm(const Options& options, const Form& form) {
  Net net(options);
  ValueId x = net.batch_norm("bn_data", net.image("data"));
  x = net.conv("conv0", x, {.out = 64, .kernel = 7, .stride = 2, .pad = 3, .bias = false});
  x = net.max_pool("pool0", norm_relu(net, "bn0", x), {.kernel = 3, .stride = 2, .pad = 1});
  for (int64_t stage = 0; stage < kStages; ++stage) {
    for (int64_t i = 0; i < form.units[static_cast<size_t>(stage)]; ++i) {
      const int64_t stride = stage > 0 && i == 0 ? 2 : 1;
      x = tvm_unit(net, fmt::format("stage{}_unit{}", stage + 1, i + 1), x, form, stage, stride, i == 0);
    }
  }
  x = net.dense("fc1", net.global_pool("pool1", norm_relu(net, "bn1", x)), options.classes);
  net.output(net.op("Softmax", "softmax", {x}, {{"axis", int64_t{1}}}));
  return net.take();
}

const Form kForm18 = {{2, 2, 2, 2}, false};
const Form kForm34 = {{3, 4, 6, 3}, false};
const Form kForm50 = {{3, 4, 6, 3}, true};
const Form kForm101 = {{3, 4, 23, 3}, true};
const Form kForm152 = {{3, 8, 36, 3}, true};

}  // namespace

std::vector<Row> resnet_rows() {
  return {
      {"resnet18", {"resnet-18"}, "ResNet-18", 224, [](const Options& o) { return resnet(o, kForm18); }},
      {"resnet34", {"resnet-34"}, "ResNet-34", 224, [](const Options& o) { return resnet(o, kForm34); }},
      {"resnet50",
       {"resnet-50"},
       "ResNet-50, stride in the 3x3",
       224,
       [](const Options& o) { return resnet(o, kForm50); }},
      {"resnet101", {"resnet-101"}, "ResNet-101", 224, [](const Options& o) { return resnet(o, kForm101); }},
      {"resnet152", {"resnet-152"}, "ResNet-152", 224, [](const Options& o) { return resnet(o, kForm152); }},
      {"resnet18_tvm",
       {},
       "ResNet-18 as in TVM's reports: 21 convolutions, 12 distinct",
       224,
       [](const Options& o) { return resnet_tvm(o, kForm18); }},
      {"resnet50_tvm",
       {},
       "ResNet-50 as in TVM's reports: 53 convolutions, 20 distinct, stride in the 1x1",
       224,
       [](const Options& o) { return resnet_tvm(o, kForm50); }},
  };
}

}  // namespace kilter::zoo
