// fuse_depthwise: the pairs of convolutions that become one task, and the reasons why others do not.
#include <gtest/gtest.h>

#include "../base/error_of.h"
#include "pass_runner.h"
#include "target/target.h"

namespace kilter {
namespace {

/// A 1x1 convolution followed by element-wise nodes and a depthwise convolution. `more`: further nodes.
std::string network(int64_t pixels, std::string_view more = "", std::string_view kernel = "1,1",
                    int64_t channels = 96) {
  return fmt::format(R"(graph "g" {{
    input %x: f32[1,16,{0},{0}]
    const %w: f32[{3},16,{1}]#0
    const %d: f32[{3},1,3,3]#0
    %a: f32[1,{3},{0},{0}] = Conv@11 "expand" {{auto_pad="SAME_UPPER"}}(%x, %w)
    %b: f32[1,{3},{0},{0}] = Relu@14 "relu"(%a)
    %c: f32[1,{3},{0},{0}] = Conv@11 "depthwise" {{group={3}, pads=[1, 1, 1, 1]}}(%b, %d)
    {2}
    output "c" %c
  }})",
                     pixels, kernel, more, channels);
}

struct Outcome {
  bool joined = false;
  std::vector<Unfused> unfused;
  int64_t rewrites = 0;
};

Outcome run(const std::string& text, PassContext context = {}) {
  Graph graph = parse_graph(text);
  context.limits = parse_target("icelake-server").limits;
  choose_layouts(graph, context);
  fuse(graph, context);
  context.rewrites_done = 0, context.unfused.clear();
  fuse_depthwise(graph, context);
  verify(graph);
  const int64_t once = context.rewrites_done;
  const std::vector<Unfused> unfused = context.unfused;
  fuse_depthwise(graph, context);
  EXPECT_EQ(context.rewrites_done, once) << "a second run joins more";
  Outcome out;
  std::map<std::string, int32_t> groups;
  for (NodeId id : graph.order()) groups[graph.node(id).name] = graph.node(id).group;
  out.joined = groups.at("expand") == groups.at("depthwise") && groups.at("relu") == groups.at("depthwise");
  out.unfused = unfused;
  out.rewrites = context.rewrites_done;
  return out;
}

/// The only reason why a network's pair of convolutions is not fused.
Unfused refusal(const std::string& text, PassContext context = {}) {
  const Outcome out = run(text, std::move(context));
  EXPECT_FALSE(out.joined);
  EXPECT_EQ(out.rewrites, 0);
  EXPECT_EQ(out.unfused.size(), 1U);
  return out.unfused.empty() ? Unfused{} : out.unfused.front();
}

TEST(FuseDepthwise, FusesValuesThatExceedNearCaches) {
  const Outcome out = run(network(112));
  EXPECT_TRUE(out.joined);
  EXPECT_EQ(out.rewrites, 1);
  EXPECT_TRUE(out.unfused.empty());
}

TEST(FuseDepthwise, FollowingPointwiseConvolutionsSayWhyTheyAreNotFused) {
  const Outcome out = run(network(112, R"(const %v: f32[24,96,1,1]#0
    %e: f32[1,24,112,112] = Conv@11 "project"(%c, %v)
    output "e" %e)"));
  EXPECT_TRUE(out.joined);
  ASSERT_EQ(out.unfused.size(), 1U);
  EXPECT_EQ(out.unfused.front().node, "project");
  EXPECT_EQ(out.unfused.front().group, "depthwise");
  EXPECT_EQ(out.unfused.front().reason,
            "no template runs a pointwise convolution in one kernel with the depthwise one before it: the values "
            "between them stay in L2, which costs a few percent at most");
}

TEST(FuseDepthwise, DoesNotFuseValuesThatFitNearCaches) {
  const Unfused u = refusal(network(4));
  EXPECT_EQ(u.why, Unfused::cycles);
  EXPECT_EQ(u.node, "depthwise");
  EXPECT_EQ(u.group, "expand");
  EXPECT_TRUE(u.reason.starts_with("the analytic model expects ")) << u.reason;
}

TEST(FuseDepthwise, FusesOnRequestDespiteTheModel) {
  PassContext asked;
  asked.fuse = {{"depthwise", "--fuse depthwise"}};
  EXPECT_TRUE(run(network(4), asked).joined);
  EXPECT_TRUE(run(network(4, "", "3,3"), asked).joined);
  PassContext forced;
  forced.own = {{"depthwise", "conv2d_then_depthwise"}};
  EXPECT_TRUE(run(network(4), forced).joined);
}

TEST(FuseDepthwise, DoesNotFuseWinogradConvolutions) {
  const Unfused u = refusal(network(112, "", "3,3"));
  EXPECT_EQ(u.why, Unfused::cycles);
  EXPECT_EQ(u.reason, "'expand' may run faster with a kernel other than direct convolution");
}

TEST(FuseDepthwise, DoesNotFuseSharedValues) {
  const Unfused twice =
      refusal(network(112, "%e: f32[1,96,112,112] = MaxPool@12 \"e\" {kernel_shape=[1, 1]}(%b)\n output \"e\" %e"));
  EXPECT_EQ(twice.reason, "'b' has other readers");
  EXPECT_EQ(twice.why, Unfused::order);
}

/// The network with 3 channels per group in place of the depthwise convolution.
std::string grouped() {
  return with(with(network(112), "%d: f32[96,1,3,3]", "%d: f32[96,3,3,3]"), "{group=96,", "{group=32,");
}

TEST(FuseDepthwise, IgnoresGroupsOfSeveralChannels) {
  const Outcome out = run(grouped());
  EXPECT_FALSE(out.joined);
  EXPECT_TRUE(out.unfused.empty()) << out.unfused.front().reason;
}

TEST(FuseDepthwise, OptionsPreventFusion) {
  PassContext context;
  context.no_fuse = {"depthwise"};
  EXPECT_EQ(refusal(network(112), context).reason, "--no-fuse depthwise");
  context.no_fuse.clear();
  context.own = {{"expand", "conv2d_direct"}};
  EXPECT_EQ(refusal(network(112), context).reason, "'expand' has a schedule or threads of its own");
  context.own = {{"depthwise", "conv2d_depthwise"}};
  EXPECT_EQ(refusal(network(112), context).reason, "its schedule is forced to conv2d_depthwise");
  context.own = {{"depthwise", ""}};
  EXPECT_TRUE(run(network(112), context).joined) << "threads of the task's own change nothing";
  context.own.clear();
  context.apart = {"depthwise"};
  EXPECT_EQ(refusal(network(112), context).reason, "fuse=apart in a layer plan");
}

TEST(FuseDepthwise, ImpossibleRequestIsAnError) {
  PassContext context;
  context.fuse = {{"depthwise", "--fuse depthwise"}};
  const auto error = [&](const std::string& text) { return error_of([&] { run(text, context); }, ErrorKind::usage); };
  EXPECT_EQ(error(network(8, "%e: f32[1,96,8,8] = MaxPool@12 \"e\" {kernel_shape=[1, 1]}(%b)\n output \"e\" %e")),
            "--fuse depthwise: this node cannot join a preceding convolution's kernel: 'b' has other readers");
  EXPECT_EQ(error(network(1)),
            "--fuse depthwise: this node cannot join a preceding convolution's kernel: rows of the feeder's result: "
            "limit 2 or more, got 1");
  EXPECT_EQ(error(grouped()),
            "--fuse depthwise: this node cannot join a preceding convolution's kernel: groups = input channels = "
            "output channels: limit 32, got 96 in, 96 out");
  EXPECT_EQ(error(with(with(network(8), "%w: f32[96,16,", "%w: f32[96,8,"), "{auto_pad", "{group=2, auto_pad")),
            "--fuse depthwise: this node cannot join a preceding convolution's kernel: groups of the feeder: limit "
            "1, got 2");
}

}  // namespace
}  // namespace kilter
