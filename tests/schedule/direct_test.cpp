#include <gtest/gtest.h>

#include <algorithm>

#include "compile/compile.h"
#include "compile/placed_tasks.h"
#include "compile/session.h"
#include "ops/support/builder.h"
#include "ops/support/cases.h"
#include "schedule/problem/problem.h"
#include "schedule/templates/templates.h"
#include "target/target.h"

namespace kilter {
namespace {

/// Returns the loops of a graph's convolution under znver4's default schedule, without prefetching of weights.
std::string loops(Graph graph, const std::string& operators) {
  const CpuLimits limits = parse_target("znver4").limits;
  const PlacedTasks placed = place_tasks(std::move(graph), limits);
  const auto task = std::ranges::find(placed.tasks, operators, &Task::ops);
  if (task == placed.tasks.end()) return "no such task";
  Schedule schedule = *conv2d_direct.pick(*task, limits);
  for (auto& [name, value] : schedule.knobs) value = name == "prefetch" ? 0 : value;
  return print(conv2d_direct.lower(*task, schedule, limits)->stages.front().func);
}

int64_t count(const std::string& text, const std::string& what) {
  int64_t n = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

TEST(DirectConvolution, PrefetchesAddendsWithEachBlockOfChannels) {
  const Graph added = parse_problem("conv2d n1 c64 h14 w14 k32 r1 s1 f32 +bias +add+relu").graph;
  const Graph plain = parse_problem("conv2d n1 c64 h14 w14 k32 r1 s1 f32 +bias +relu").graph;
  const std::string residual = loops(added, "Conv+Add+Relu");
  // A tile of 14 pixels and 2 vectors sums over 4 blocks of channels. With each block, it prefetches the addends of 4
  // pixels, hence 8 lines.
  EXPECT_EQ(count(residual, "prefetch"), 8) << residual;
  EXPECT_EQ(count(loops(plain, "Conv+Relu"), "prefetch"), 0);
}

TEST(DirectConvolution, PrefetchesRowsOfTheNetworksInput) {
  const std::string input = loops(parse_problem("conv2d n1 c3 h33 w33 k32 r3 s3 stride2 f32").graph, "Conv");
  // A tile of 8 pixels reads 16 columns, which are a line, in each of its rows.
  EXPECT_EQ(count(input, "prefetch"), 1) << input;
  EXPECT_EQ(count(input, "prefetch x0["), 1) << input;
  const std::string copy = loops(parse_problem("conv2d n1 c3 h33 w33 k32 r3 s3 stride2 pad1 f32").graph, "Conv");
  EXPECT_EQ(count(copy, "prefetch"), 0) << "the copy with padding is in the caches";
}

TEST(DirectConvolution, ComputesHalfVectorsOnHalfWidthUnits) {
  // 24 channels are a vector and a half; the other half of the second vector is written as zeros.
  const std::string half = loops(parse_problem("conv2d n1 c64 h14 w14 k24 r1 s1 f32 +bias +relu").graph, "Conv+Relu");
  EXPECT_EQ(count(half, "fma("), 4 * 2 * 14) << half;
  EXPECT_EQ(count(half, "], 8)"), 4 * 14) << half;  // pixels broadcast to half a vector
  EXPECT_EQ(count(half, "= 0:f32x8\n"), 14) << half;
  const std::string whole = loops(parse_problem("conv2d n1 c64 h14 w14 k25 r1 s1 f32 +bias +relu").graph, "Conv+Relu");
  EXPECT_EQ(count(whole, "], 8)"), 0) << whole;
}

/// The work of a convolution's stage under a schedule, if it differs from that of its task.
std::optional<StageWork> work(const std::string& problem, const std::string& schedule) {
  const CpuLimits limits = parse_target("znver4").limits;
  const PlacedTasks placed = place_tasks(parse_problem(problem).graph, limits);
  const auto task = std::ranges::find(placed.tasks, "Conv", &Task::ops);
  return conv2d_direct.lower(*task, parse_schedule(schedule), limits)->stages.front().work;
}

TEST(DirectConvolution, SkipsTapsInThePaddingOfWholeTiles) {
  const std::string schedule = "conv2d_direct vectors=2 rows=1 tile=10 prefetch=0";
  // There are 20 rows of 2 tiles each. The three rows of taps read the image in 8, 20 and 8 of the rows, and the three
  // columns of taps in 1, 2 and 1 of the tiles.
  const auto most = work("conv2d n1 c32 h20 w20 k32 r3 s3 pad12 dil12,12 f32", schedule);
  ASSERT_TRUE(most);
  EXPECT_EQ(most->effective_flops, int64_t{2} * 400 * 32 * 32 * 9);
  EXPECT_EQ(most->flops, int64_t{2} * 400 * 32 * 32 * 9 * 36 / 60 * 4 / 6);
  EXPECT_FALSE(work("conv2d n1 c32 h20 w20 k32 r3 s3 pad2 dil2,2 f32", schedule)) << "nearly all taps read the image";
}

TEST(DirectConvolution, TilesAreLargerIfWeightsExceedL2) {
  const auto tile = [](int64_t l2_bytes) {
    CpuLimits limits = parse_target("znver4").limits;
    limits.l2_bytes = l2_bytes;
    const PlacedTasks placed =
        place_tasks(parse_problem("conv2d n1 c64 h28 w28 k32 r3 s3 pad12 dil12,12 f32").graph, limits);
    const auto task = std::ranges::find(placed.tasks, "Conv", &Task::ops);
    return conv2d_direct.pick(*task, limits)->knob("tile");
  };
  EXPECT_EQ(tile(1 << 20), 4);  // it skips the most taps
  EXPECT_EQ(tile(1 << 16), 10);
}

/// Whether the pixels are processed in blocks, each with all panels of weights, under a given schedule or the default.
bool in_blocks(const std::string& problem, int64_t l2_bytes, std::string_view target = "x86-64-v3",
               const std::string& given = "") {
  CpuLimits limits = parse_target(target).limits;
  limits.l2_bytes = l2_bytes;
  const PlacedTasks placed = place_tasks(parse_problem(problem).graph, limits);
  const auto task = std::ranges::find_if(placed.tasks, [](const Task& t) { return t.ops().starts_with("Conv"); });
  const Schedule schedule = given.empty() ? *conv2d_direct.pick(*task, limits) : parse_schedule(given);
  const std::string text = print(conv2d_direct.lower(*task, schedule, limits)->stages.front().func);
  const size_t block = text.find("parallel block"), panel = text.find("parallel ocg");
  EXPECT_NE(panel, std::string::npos) << text;
  EXPECT_TRUE(block == std::string::npos || block < panel) << text;
  return block != std::string::npos;
}

TEST(DirectConvolution, PixelsAreBlockedToReuseL2) {
  constexpr int64_t kL2 = 512 << 10;
  EXPECT_TRUE(in_blocks("conv2d n1 c256 h56 w56 k64 r1 s1 f32 +bias +relu", kL2)) << "an image of 3.2 MB";
  EXPECT_FALSE(in_blocks("conv2d n1 c256 h56 w56 k64 r1 s1 f32 +bias +relu", 16 * kL2)) << "it fits";
  EXPECT_FALSE(in_blocks("conv2d n1 c256 h14 w14 k1024 r1 s1 f32 +bias +relu", kL2)) << "0.2 MB, weights 1 MB";
  EXPECT_FALSE(in_blocks("conv2d n1 c256 h28 w28 k256 r3 s3 pad1 f32 +bias +relu", kL2)) << "weights of 2.4 MB";
}

/// Runs a convolution on a target with this L2 size.
Tensor run_with_l2(const Graph& graph, const std::vector<Tensor>& inputs, const std::string& schedule, int64_t l2_bytes,
                   int threads) {
  CompileOptions options;
  options.target = parse_target("native");
  options.target.limits.l2_bytes = l2_bytes;
  for (const NodeId id : graph.order()) {
    if (graph.node(id).op->name == "Conv") options.choices[graph.node(id).name].schedule = parse_schedule(schedule);
  }
  const auto program = std::make_shared<const Program>(std::move(compile_graph(graph, options).plan));
  Loaded loaded{program, std::make_unique<Instance>(program, std::make_shared<ThreadPool>(threads)), {}};
  return run_plan(loaded, inputs).at(0);
}

TEST(DirectConvolution, BlockedPixelsGiveTheSameResult) {
  struct Case {
    std::string problem;
    int64_t l2_bytes;  ///< an L2 size for which pixels are processed in blocks
  };
  for (const Case& c : {Case{"conv2d n1 c40 h13 w13 k96 r1 s1 f32 +bias +relu", 40 << 10},
                        Case{"conv2d n2 c64 h14 w14 k64 r1 s1 f32 +bias +add+relu", 40 << 10},
                        Case{"conv2d n1 c16 h30 w30 k64 r3 s3 pad1 f32 +bias", 80 << 10},
                        Case{"conv2d n1 c64 h15 w15 k64 r1 s1 stride2,2 f32 +bias", 40 << 10}}) {
    const Graph graph = parse_problem(c.problem).graph;
    std::vector<Tensor> inputs;
    for (const ValueId v : graph.inputs())
      inputs.push_back(random_input(graph.value(v).name, graph.type(v).dtype, graph.type(v).shape));
    for (const std::string schedule :
         {"conv2d_direct vectors=1 rows=1 tile=5 prefetch=1", "conv2d_direct vectors=2 rows=1 tile=4 prefetch=1024",
          "conv2d_direct vectors=1 rows=1 tile=3 prefetch=0"}) {
      constexpr int64_t kAll = 1 << 30;
      EXPECT_TRUE(in_blocks(c.problem, c.l2_bytes, "native", schedule)) << c.problem << " | " << schedule;
      EXPECT_FALSE(in_blocks(c.problem, kAll, "native", schedule));
      const Tensor blocks = run_with_l2(graph, inputs, schedule, c.l2_bytes, 2);
      const auto difference = compare(blocks, run_with_l2(graph, inputs, schedule, kAll, 1), {0, 0});
      EXPECT_FALSE(difference.has_value()) << c.problem << " | " << schedule << ": " << *difference;
    }
  }
}

}  // namespace
}  // namespace kilter
