// fuse_channel_scale: the multiplications by per-channel factors that join a convolution's task.
#include <gtest/gtest.h>

#include "pass_runner.h"
#include "target/target.h"

namespace kilter {
namespace {

/// Squeeze and excitation before a 1x1 convolution with `filters` filters. `more`: further nodes.
std::string network(int64_t pixels, int64_t filters, std::string_view more = "", int64_t images = 1,
                    int64_t channels = 32) {
  return fmt::format(R"(graph "g" {{
    input %x: f32[{3},16,{0},{0}]
    const %w: f32[{4},16,1,1]#0
    const %g: f32[{4},{4},1,1]#0
    const %v: f32[{1},{4},1,1]#0
    const %axes: i64[2](2, 3)
    %a: f32[{3},{4},{0},{0}] = Conv@11 "first"(%x, %w)
    %p: f32[{3},{4},1,1] = ReduceMean@18 "pool"(%a, %axes)
    %q: f32[{3},{4},1,1] = Conv@11 "excite"(%p, %g)
    %s: f32[{3},{4},1,1] = Sigmoid@13 "gate"(%q)
    %b: f32[{3},{4},{0},{0}] = Mul@14 "scale"(%a, %s)
    %c: f32[{3},{1},{0},{0}] = Conv@11 "project"(%b, %v)
    {2}
    output "c" %c
  }})",
                     pixels, filters, more, images, channels);
}

/// The reason why the multiplication is not in the convolution's group; empty if it is.
std::string apart(const std::string& text, PassContext context = {}) {
  Graph graph = parse_graph(text);
  context.limits = parse_target("icelake-server").limits;
  choose_layouts(graph, context);
  fuse(graph, context);
  fuse_depthwise(graph, context);
  context.rewrites_done = 0;
  fuse_channel_scale(graph, context);
  verify(graph);
  const std::vector<Unfused> unfused = context.unfused;
  const int64_t once = context.rewrites_done;
  fuse_channel_scale(graph, context);
  EXPECT_EQ(context.rewrites_done, once) << "a second run joins more";
  std::map<std::string, int32_t> groups;
  for (NodeId id : graph.order()) groups[graph.node(id).name] = graph.node(id).group;
  const bool in = groups.at("scale") == groups.at("project");
  EXPECT_EQ(context.rewrites_done, in ? 1 : 0);
  std::string reason;
  for (const Unfused& u : unfused) {
    if (u.node != "scale") continue;
    EXPECT_FALSE(in) << "it is fused, but: " << u.reason;
    if (u.group == "project") reason = u.reason;
  }
  EXPECT_EQ(reason.empty(), in) << "what is not fused says why";
  return reason;
}

TEST(FuseChannelScale, OnlyLargeImages) {
  EXPECT_EQ(apart(network(8, 32)), "");
  EXPECT_EQ(apart(network(7, 32)),
            "49 pixels are fewer than the 64 that pay for multiplying the weights of 32 filters");
}

TEST(FuseChannelScale, OneImageOnly) {
  EXPECT_EQ(apart(network(16, 32, "", 2)), "2 images share the weights of 'project', expected 1");
}

/// The network with a different last convolution.
std::string ending(const std::string& weights, const std::string& attrs, int64_t extent) {
  const std::string text = with(network(16, 32), "%v: f32[32,32,1,1]#0", "%v: " + weights + "#0");
  return with(with(text, "%c: f32[1,32,16,16]", fmt::format("%c: f32[1,32,{0},{0}]", extent)), "\"project\"(",
              "\"project\" " + attrs + "(");
}

TEST(FuseChannelScale, OnlyDenseKernelsOf1x1) {
  EXPECT_EQ(apart(ending("f32[32,32,3,3]", "", 14)), "'project' has kernels of 3x3, expected 1x1");
  EXPECT_EQ(apart(ending("f32[32,16,1,1]", "{group=2}", 16)), "'project' has 2 groups, expected 1");
}

TEST(FuseChannelScale, OnlyBlockedOperandsWithoutHalo) {
  PassContext context;
  context.plain_layout = {"first", "scale", "project"};
  EXPECT_EQ(apart(network(16, 32), context), "its image is plain, expected blocks of channels");
  EXPECT_EQ(apart(ending("f32[32,32,1,1]", "{pads=[1, 1, 1, 1]}", 18)), "'project' reads its image with a halo");
  EXPECT_EQ(apart(network(7, 32, "", 1, 1)), "'s' is not in blocks of 16 channels") << "one factor stays plain";
}

TEST(FuseChannelScale, OnlyConstantWeights) {
  PassContext context;
  context.plain_layout = {"first", "scale", "project"};
  EXPECT_EQ(apart(with(network(16, 32), "const %v: f32[32,32,1,1]#0", "input %v: f32[32,32,1,1]"), context),
            "the weights of 'project' are not constant");
}

TEST(FuseChannelScale, ConvolutionsFusedWithDepthwiseAreUnchanged) {
  PassContext context;
  context.fuse = {{"spread", "--fuse spread"}};
  EXPECT_EQ(apart(with(network(16, 32), "output \"c\" %c", R"(const %t: f32[32,1,3,3]#0
    %d: f32[1,32,16,16] = Conv@11 "spread" {group=32, pads=[1, 1, 1, 1]}(%c, %t)
    output "d" %d)"),
                  context),
            "'project' runs in one kernel with another convolution");
}

TEST(FuseChannelScale, OnlyProductsWithOneReader) {
  EXPECT_EQ(apart(network(16, 32, "output \"b\" %b")), "'b' has other readers");
  EXPECT_EQ(
      apart(network(16, 32, "%e: f32[1,32,16,16] = MaxPool@12 \"e\" {kernel_shape=[1, 1]}(%b)\n output \"e\" %e")),
      "'b' has other readers");
}

TEST(FuseChannelScale, OptionsPreventFusion) {
  for (const char* node : {"scale", "project"}) {
    PassContext context;
    context.no_fuse = {node};
    EXPECT_EQ(apart(network(16, 32), context), fmt::format("--no-fuse {}", node));
  }
  PassContext context;
  context.own = {{"scale", "map_elementwise"}};
  EXPECT_EQ(apart(network(16, 32), context), "it has a schedule or threads of its own");
}

TEST(Fuse, NodesBeforeConvolutionsSayWhyTheyAreNotFused) {
  Graph graph = parse_graph(R"(graph "g" {
    input %x: f32[1,32,8,8]
    const %w: f32[16,32,1,1]#0
    const %m: f32[32,16]#0
    %p: f32[1,32,8,8] = MaxPool@12 "pool" {kernel_shape=[1, 1]}(%x)
    %n: f32[1,32,8,8] = Neg@13 "norm"(%p)
    %r: f32[1,32,8,8] = Relu@14 "relu"(%n)
    %c: f32[1,16,8,8] = Conv@11 "conv"(%r, %w)
    output "c" %c
  })");
  PassContext context;
  context.limits = parse_target("icelake-server").limits;
  context.no_fuse = {"pool"};
  choose_layouts(graph, context);
  fuse(graph, context);
  std::vector<std::string> said;
  for (const Unfused& u : context.unfused) {
    if (u.group == "conv") said.push_back(u.node + ": " + u.reason);
  }
  EXPECT_EQ(said, std::vector<std::string>{
                      "norm: no template computes it while loading operands: it would be computed again for each "
                      "block of filters or columns, which costs as much as it saves"});
}

}  // namespace
}  // namespace kilter
