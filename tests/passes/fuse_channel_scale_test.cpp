// fuse_channel_scale: which multiplications by a factor a channel become part of a convolution's task.
#include <gtest/gtest.h>

#include "loop/target.h"
#include "pass_runner.h"

namespace kilter {
namespace {

/// Squeeze and excitation before a 1x1 convolution with `filters`; `more` are further nodes.
std::string network(int64_t pixels, int64_t filters, std::string_view more = "", int64_t images = 1) {
  return fmt::format(R"(graph "g" {{
    input %x: f32[{3},16,{0},{0}]
    const %w: f32[32,16,1,1]#0
    const %g: f32[32,32,1,1]#0
    const %v: f32[{1},32,1,1]#0
    const %axes: i64[2](2, 3)
    %a: f32[{3},32,{0},{0}] = Conv@11 "first"(%x, %w)
    %p: f32[{3},32,1,1] = ReduceMean@18 "pool"(%a, %axes)
    %q: f32[{3},32,1,1] = Conv@11 "excite"(%p, %g)
    %s: f32[{3},32,1,1] = Sigmoid@13 "gate"(%q)
    %b: f32[{3},32,{0},{0}] = Mul@14 "scale"(%a, %s)
    %c: f32[{3},{1},{0},{0}] = Conv@11 "project"(%b, %v)
    {2}
    output "c" %c
  }})",
                     pixels, filters, more, images);
}

/// Whether the multiplication is in the convolution's group.
bool joined(const std::string& text, PassContext context = {}) {
  Graph graph = parse_graph(text);
  context.limits = parse_target("icelake-server").limits;
  choose_layouts(graph, context);
  fuse(graph, context);
  context.rewrites_done = 0;
  fuse_channel_scale(graph, context);
  verify(graph);
  const int64_t once = context.rewrites_done;
  fuse_channel_scale(graph, context);
  EXPECT_EQ(context.rewrites_done, once) << "a second run joins more";
  std::map<std::string, int32_t> groups;
  for (NodeId id : graph.order()) groups[graph.node(id).name] = graph.node(id).group;
  const bool in = groups.at("scale") == groups.at("project");
  EXPECT_EQ(context.rewrites_done, in ? 1 : 0);
  return in;
}

TEST(FuseChannelScale, LargeImagesLeaveTheWorkToTheWeights) {
  EXPECT_TRUE(joined(network(8, 32)));
  EXPECT_FALSE(joined(network(7, 32))) << "49 pixels for 32 filters";
}

TEST(FuseChannelScale, OneImageOnly) { EXPECT_FALSE(joined(network(16, 32, "", 2))); }

TEST(FuseChannelScale, NothingElseReadsTheProduct) {
  EXPECT_FALSE(joined(network(16, 32, "output \"b\" %b")));
  EXPECT_FALSE(
      joined(network(16, 32, "%e: f32[1,32,16,16] = MaxPool@12 \"e\" {kernel_shape=[1, 1]}(%b)\n output \"e\" %e")));
}

TEST(FuseChannelScale, OptionsKeepItApart) {
  for (const char* node : {"scale", "project"}) {
    PassContext context;
    context.no_fuse = {node};
    EXPECT_FALSE(joined(network(16, 32), context)) << node;
  }
  PassContext context;
  context.own = {{"scale", "map_elementwise"}};
  EXPECT_FALSE(joined(network(16, 32), context));
}

}  // namespace
}  // namespace kilter
