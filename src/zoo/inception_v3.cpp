// Szegedy et al., "Rethinking the Inception Architecture for Computer Vision" (2015), without the auxiliary classifier.
// Batch normalisation is folded into the convolutions.
#include <fmt/format.h>

#include "zoo/families.h"
#include "zoo/net.h"

namespace kilter::zoo {
namespace {

constexpr PoolSpec kKeep = {.kernel = 3, .stride = 1, .pad = 1};
constexpr PoolSpec kHalve = {.kernel = 3, .stride = 2};

ConvSpec one(int64_t out) { return {.out = out}; }
ConvSpec three(int64_t out) { return {.out = out, .kernel = 3, .pad = 1}; }
ConvSpec three_halving(int64_t out) { return {.out = out, .kernel = 3, .stride = 2}; }
ConvSpec row_of(int64_t out, int64_t n) { return {.out = out, .kernel = {1, n}, .pad = {0, n / 2}}; }
ConvSpec column_of(int64_t out, int64_t n) { return {.out = out, .kernel = {n, 1}, .pad = {n / 2, 0}}; }

/// Convolutions one after the other.
ValueId chain(Net& net, const std::string& path, ValueId x, const std::vector<ConvSpec>& specs) {
  for (size_t i = 0; i < specs.size(); ++i) x = net.conv_relu(fmt::format("{}_{}", path, i + 1), x, specs[i]);
  return x;
}

ValueId pool_branch(Net& net, const std::string& path, ValueId x, int64_t out) {
  return net.conv_relu(path + ".branch_pool", net.average_pool(path + ".pool", x, kKeep), one(out));
}

/// A module on the 35x35 grid.
ValueId mixed_5(Net& net, const std::string& path, ValueId x, int64_t pooled) {
  return net.concat(
      path + ".concat",
      {net.conv_relu(path + ".branch1x1", x, one(64)),
       chain(net, path + ".branch5x5", x, {one(48), {.out = 64, .kernel = 5, .pad = 2}}),
       chain(net, path + ".branch3x3dbl", x, {one(64), three(96), three(96)}), pool_branch(net, path, x, pooled)});
}

/// The module between the 35x35 and the 17x17 grid.
ValueId mixed_6a(Net& net, const std::string& path, ValueId x) {
  return net.concat(path + ".concat", {net.conv_relu(path + ".branch3x3", x, three_halving(384)),
                                       chain(net, path + ".branch3x3dbl", x, {one(64), three(96), three_halving(96)}),
                                       net.max_pool(path + ".pool", x, kHalve)});
}

/// A module on the 17x17 grid.
ValueId mixed_6(Net& net, const std::string& path, ValueId x, int64_t inner) {
  return net.concat(path + ".concat",
                    {net.conv_relu(path + ".branch1x1", x, one(192)),
                     chain(net, path + ".branch7x7", x, {one(inner), row_of(inner, 7), column_of(192, 7)}),
                     chain(net, path + ".branch7x7dbl", x,
                           {one(inner), column_of(inner, 7), row_of(inner, 7), column_of(inner, 7), row_of(192, 7)}),
                     pool_branch(net, path, x, 192)});
}

/// The module between the 17x17 and the 8x8 grid.
ValueId mixed_7a(Net& net, const std::string& path, ValueId x) {
  return net.concat(path + ".concat", {chain(net, path + ".branch3x3", x, {one(192), three_halving(320)}),
                                       chain(net, path + ".branch7x7x3", x,
                                             {one(192), row_of(192, 7), column_of(192, 7), three_halving(192)}),
                                       net.max_pool(path + ".pool", x, kHalve)});
}

/// A module on the 8x8 grid.
ValueId mixed_7(Net& net, const std::string& path, ValueId x) {
  const ValueId single = net.conv_relu(path + ".branch3x3_1", x, one(384));
  const ValueId twice = chain(net, path + ".branch3x3dbl", x, {one(448), three(384)});
  return net.concat(
      path + ".concat",
      {net.conv_relu(path + ".branch1x1", x, one(320)), net.conv_relu(path + ".branch3x3_2a", single, row_of(384, 3)),
       net.conv_relu(path + ".branch3x3_2b", single, column_of(384, 3)),
       net.conv_relu(path + ".branch3x3dbl_3a", twice, row_of(384, 3)),
       net.conv_relu(path + ".branch3x3dbl_3b", twice, column_of(384, 3)), pool_branch(net, path, x, 192)});
}

Graph inception_v3(const Options& options) {
  Net net(options);
  ValueId x = net.conv_relu("conv1a", net.image(), three_halving(32));
  x = net.conv_relu("conv2a", x, {.out = 32, .kernel = 3});
  x = net.conv_relu("conv2b", x, three(64));
  x = net.max_pool("maxpool1", x, kHalve);
  x = net.conv_relu("conv3b", x, one(80));
  x = net.conv_relu("conv4a", x, {.out = 192, .kernel = 3});
  x = net.max_pool("maxpool2", x, kHalve);
  x = mixed_5(net, "mixed_5b", x, 32);
  x = mixed_5(net, "mixed_5c", x, 64);
  x = mixed_5(net, "mixed_5d", x, 64);
  x = mixed_6a(net, "mixed_6a", x);
  x = mixed_6(net, "mixed_6b", x, 128);
  x = mixed_6(net, "mixed_6c", x, 160);
  x = mixed_6(net, "mixed_6d", x, 160);
  x = mixed_6(net, "mixed_6e", x, 192);
  x = mixed_7a(net, "mixed_7a", x);
  x = mixed_7(net, "mixed_7b", x);
  x = mixed_7(net, "mixed_7c", x);
  net.output(net.dense("fc", net.global_pool("avgpool", x), options.classes));
  return net.take();
}

}  // namespace

std::vector<Row> inception_rows() {
  return {{.name = "inception_v3",
           .aliases = {"inception-v3"},
           .summary = "Inception v3 without its auxiliary classifier",
           .size = 299,
           .build = inception_v3,
           .least_size = 75}};
}

}  // namespace kilter::zoo
