// fuse_row_means: means of images whose rows are summed up by the depthwise convolution before them, and the reasons
// why others are left as they are.
#include <gtest/gtest.h>

#include "pass_runner.h"
#include "target/target.h"

namespace kilter {
namespace {

/// Squeeze and excitation of the result of a depthwise convolution.
std::string network(std::string_view mean = R"("pool" {keepdims=1}(%b, %axes))", std::string_view group = "group=32, ",
                    std::string_view filters = "32,1,3,3") {
  return fmt::format(R"(graph "g" {{
    input %x: f32[1,32,14,14]
    const %w: f32[{2}]#0
    const %axes: i64[2](2, 3)
    %a: f32[1,32,14,14] = Conv@11 "depthwise" {{{1}pads=[1, 1, 1, 1]}}(%x, %w)
    %b: f32[1,32,14,14] = Relu@14 "relu"(%a)
    %p: f32[1,32,1,1] = ReduceMean@18 {0}
    %s: f32[1,32,1,1] = Sigmoid@13 "gate"(%p)
    %c: f32[1,32,14,14] = Mul@14 "scale"(%b, %s)
    output "c" %c
  }})",
                     mean, group, filters);
}

struct Outcome {
  std::string groups;  ///< the group of each reduction: "pool.rows in depthwise, pool in pool"
  std::vector<std::string> refused;
  int64_t rewrites = 0;
};

Outcome run(const std::string& text, PassContext context = {}) {
  Graph graph = parse_graph(text);
  context.limits = parse_target("icelake-server").limits;
  choose_layouts(graph, context);
  fuse(graph, context);
  fuse_depthwise(graph, context);
  context.rewrites_done = 0, context.unfused.clear();
  fuse_row_means(graph, context);
  verify(graph);
  Outcome out;
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (node.op->family != Family::reduce) continue;
    out.groups += fmt::format("{}{} in {}", out.groups.empty() ? "" : ", ", node.name, graph.node(node.group).name);
  }
  for (const Unfused& u : context.unfused) out.refused.push_back(fmt::format("{}: {}", u.group, u.reason));
  out.rewrites = context.rewrites_done;
  fuse_row_means(graph, context);
  EXPECT_EQ(context.rewrites_done, out.rewrites) << "a second run takes in more";
  return out;
}

using Reasons = std::vector<std::string>;
constexpr std::string_view kApart = "pool in pool", kSplit = "pool.rows in depthwise, pool in pool";

TEST(FuseRowMeans, RowsAreSummedByTheirProducer) {
  const Outcome out = run(network());
  EXPECT_EQ(out.groups, kSplit);
  EXPECT_EQ(out.rewrites, 1);
  EXPECT_EQ(out.refused, Reasons{});
  std::string attribute = with(network(R"("pool" {axes=[2, 3], keepdims=1}(%b))"), "ReduceMean@18", "ReduceMean@13");
  EXPECT_EQ(run(with(attribute, "const %axes: i64[2](2, 3)", "")).groups, kSplit);
}

TEST(FuseRowMeans, RowMeansAreFusedCompletely) {
  const auto axis3 = [](std::string text) {
    text = with(std::move(text), "i64[2](2, 3)", "i64[1](3)");
    text = with(std::move(text), "%p: f32[1,32,1,1]", "%p: f32[1,32,14,1]");
    return with(std::move(text), "%s: f32[1,32,1,1]", "%s: f32[1,32,14,1]");
  };
  // The sigmoid follows the mean and would have to run row by row, too.
  EXPECT_EQ(run(axis3(network())).refused, Reasons{"depthwise: the nodes after it run over fewer elements"});
  const std::string bare =
      with(with(axis3(network()), R"(%s: f32[1,32,14,1] = Sigmoid@13 "gate"(%p))", ""), "(%b, %s)", "(%b, %p)");
  const Outcome out = run(bare);
  EXPECT_EQ(out.groups, "pool in depthwise");
  EXPECT_EQ(out.refused, Reasons{});
}

TEST(FuseRowMeans, OthersSayWhyTheyAreNotFused) {
  const auto apart = [](const std::string& text, PassContext context = {}) {
    const Outcome out = run(text, std::move(context));
    EXPECT_EQ(out.groups, kApart);
    EXPECT_EQ(out.rewrites, 0);
    return out.refused;
  };
  EXPECT_EQ(apart(network(R"("pool" {keepdims=1}(%b, %axes))", "", "32,32,3,3")),
            Reasons{"depthwise: only tasks of depthwise convolutions can reduce their own results; this result is "
                    "stored and read again"});
  std::string flat = with(network(R"("pool" {keepdims=0}(%b, %axes))"), "%p: f32[1,32,1,1]", "%p: f32[1,32]");
  flat = with(with(flat, "%s: f32[1,32,1,1]", "%s: f32[1,32]"), R"(Mul@14 "scale"(%b, %s))", R"(Relu@14 "scale"(%b))");
  EXPECT_EQ(apart(with(flat, "output \"c\" %c", "output \"c\" %c\n output \"s\" %s")),
            Reasons{"depthwise: there is a layout change between them"});
  EXPECT_EQ(apart(with(network(), "ReduceMean@18", "ReduceMax@18")),
            Reasons{"depthwise: tasks of depthwise convolutions compute only means over the last axis or the last two, "
                    "with keepdims=1, of blocked images"});
  PassContext plain;
  plain.plain_layout = {"pool"};
  EXPECT_EQ(apart(network(), plain), Reasons{"depthwise: there is a layout change between them"});
  PassContext no_fuse;
  no_fuse.no_fuse = {"depthwise"};
  EXPECT_EQ(apart(with(network(), "(%b, %axes)", "(%a, %axes)"), no_fuse), Reasons{"depthwise: --no-fuse depthwise"});
  no_fuse.no_fuse = {"pool"};
  EXPECT_EQ(apart(network(), no_fuse), Reasons{"depthwise: --no-fuse pool"});
  PassContext forced;
  forced.own = {{"depthwise", "reference"}};
  EXPECT_EQ(apart(network(), forced), Reasons{"depthwise: the schedule of 'depthwise' is forced to reference"});
  PassContext threads;
  threads.own = {{"pool", ""}};
  EXPECT_EQ(apart(network(), threads), Reasons{"depthwise: it has a schedule or threads of its own"});
  PassContext none;
  none.rewrites_left = 0;
  ;
  EXPECT_EQ(run(network(), none).groups, kApart);
}

}  // namespace
}  // namespace kilter
