// Iandola et al., "SqueezeNet: AlexNet-level accuracy with 50x fewer parameters" (2016), and the authors' version 1.1,
// which has a smaller first convolution and earlier pools.
#include <fmt/format.h>

#include "zoo/families.h"
#include "zoo/net.h"

namespace kilter::zoo {
namespace {

constexpr PoolSpec kPool = {.kernel = 3, .stride = 2, .ceil = true};

struct Fire {
  int64_t squeeze, expand;
  bool pool_before;
};

ValueId fire(Net& net, const std::string& path, ValueId x, const Fire& f) {
  x = net.conv_relu(path + ".squeeze", x, {.out = f.squeeze});
  const ValueId one = net.conv_relu(path + ".expand1x1", x, {.out = f.expand});
  const ValueId three = net.conv_relu(path + ".expand3x3", x, {.out = f.expand, .kernel = 3, .pad = 1});
  return net.concat(path + ".concat", {one, three});
}

Graph squeezenet(const Options& options, const ConvSpec& first, const std::vector<Fire>& fires) {
  Net net(options);
  ValueId x = net.conv_relu("conv1", net.image(), first);
  for (size_t i = 0; i < fires.size(); ++i) {
    if (fires[i].pool_before) x = net.max_pool(fmt::format("pool{}", i + 1), x, kPool);
    x = fire(net, fmt::format("fire{}", i + 2), x, fires[i]);
  }
  x = net.conv_relu("conv10", x, {.out = options.classes});
  net.output(net.global_pool("pool10", x));
  return net.take();
}

Graph squeezenet1_0(const Options& options) {
  return squeezenet(options, {.out = 96, .kernel = 7, .stride = 2},
                    {{16, 64, true},
                     {16, 64, false},
                     {32, 128, false},
                     {32, 128, true},
                     {48, 192, false},
                     {48, 192, false},
                     {64, 256, false},
                     {64, 256, true}});
}

Graph squeezenet1_1(const Options& options) {
  return squeezenet(options, {.out = 64, .kernel = 3, .stride = 2},
                    {{16, 64, true},
                     {16, 64, false},
                     {32, 128, true},
                     {32, 128, false},
                     {48, 192, true},
                     {48, 192, false},
                     {64, 256, false},
                     {64, 256, false}});
}

}  // namespace

std::vector<Row> squeezenet_rows() {
  return {
      {.name = "squeezenet1_0",
       .aliases = {"squeezenet_v1.0"},
       .summary = "SqueezeNet 1.0",
       .size = 224,
       .build = squeezenet1_0,
       .least_size = 29},
      {.name = "squeezenet1_1",
       .aliases = {"squeezenet_v1.1"},
       .summary = "SqueezeNet 1.1",
       .size = 224,
       .build = squeezenet1_1,
       .least_size = 25},
  };
}

}  // namespace kilter::zoo
