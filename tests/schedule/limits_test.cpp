// The figures that describe a CPU come from its target: each limit changes an estimate of a model or the code of a
// template.
#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "../search/tasks.h"
#include "schedule/model/loop_count.h"
#include "schedule/templates/conv2d_then_depthwise.h"
#include "schedule/templates/templates.h"

namespace kilter {
namespace {

using Change = std::function<void(CpuLimits&)>;

constexpr std::string_view kConv = "conv2d n1 c64 h112 w112 k64 r1 s1 f32 +bias +relu";

double cycles(const std::string& problem, const std::string& schedule, const CpuLimits& limits,
              std::string_view target = "x86-64-v3") {
  const tune::TaskOf of(problem, target);
  const std::optional<Estimate> estimate = estimate_of(*of.task, parse_schedule(schedule), limits);
  EXPECT_TRUE(estimate) << schedule << " does not apply to " << problem;
  return estimate ? estimate->cycles : 0;
}

/// Expects `read` to return a different value after a change of a target's limits.
void expect_change(const std::string& what, std::string_view target, const Change& change,
                   const std::function<double(const CpuLimits&)>& read) {
  const CpuLimits before = parse_target(target).limits;
  CpuLimits after = before;
  change(after);
  EXPECT_NE(read(before), read(after)) << what;
}

TEST(Limits, TileModelsUseThem) {
  const auto product = [](const std::string& what, const std::string& tile, const Change& change) {
    expect_change(what, "x86-64-v3", change, [&](const CpuLimits& limits) {
      return cycles("matmul(f32[1,13,1024] f32[1024,50])", "matmul_tiled " + tile + " prefetch=0", limits);
    });
  };
  product("latency", "vectors=1 rows=1", [](CpuLimits& l) { l.latency = 9; });
  product("load_share", "vectors=1 rows=4", [](CpuLimits& l) { l.load_share = 0.5; });
  product("l2_rate", "vectors=1 rows=1", [](CpuLimits& l) { l.l2_rate = 1; });
  product("l1_way_bytes", "vectors=1 rows=6", [](CpuLimits& l) { l.l1_way_bytes = 1024; });
  product("line_bytes", "vectors=1 rows=6", [](CpuLimits& l) { l.line_bytes = 128; });
  const auto conv = [](const std::string& what, std::string_view target, const Change& change) {
    expect_change(what, target, change, [&](const CpuLimits& limits) {
      return cycles(std::string(kConv), "conv2d_direct vectors=2 rows=1 tile=6 prefetch=0", limits, target);
    });
  };
  conv("spill_slowdown", "x86-64-v2", [](CpuLimits& l) { l.spill_slowdown = 3; });
  conv("fill_buffers", "x86-64-v3", [](CpuLimits& l) { l.fill_buffers = 1; });
  const auto depthwise = [](const CpuLimits& limits) {
    return cycles("conv2d n1 c32 h10 w13 k32 r3 s3 g32 pad1 f32 +bias +clip(0 6)", "conv2d_depthwise tile=1", limits);
  };
  expect_change("latency", "x86-64-v3", [](CpuLimits& l) { l.latency = 9; }, depthwise);
}

TEST(Limits, RecurrentWeightsComeAtPeakRates) {
  const auto steps = [](const CpuLimits& limits) {
    return cycles("GRUSteps f32[3,5,111] f32[1,111,37] | | | 2", "recurrent_steps vectors=1 rows=1 prefetch=0", limits);
  };
  expect_change("l2_peak_rate", "x86-64-v3", [](CpuLimits& l) { l.l2_peak_rate = 2; }, steps);
  expect_change(
      "l1_peak_rate", "neoverse-n1", [](CpuLimits& l) { l.l1_peak_rate = 2; },
      [](const CpuLimits& limits) {
        return cycles("GRUSteps f32[3,5,111] f32[1,111,37] | | | 2", "recurrent_steps vectors=1 rows=1 prefetch=0",
                      limits, "neoverse-n1");
      });
}

TEST(Limits, LoopCountsUseThem) {
  const LoopFunc sums = parse_loop_func(
      "func \"sums\" {\n  input x: f32[64]\n  output y: f32[1]\n  reg r = 0:f32x8\n"
      "  for i in [0, 64) step 8 { set r = max(r, x[i, lanes 8]) }\n"
      "  reg s = 0:f32x8\n  for j in [0, 64) step 8 { set s = s + x[j, lanes 8] }\n  y[0] = reduce_add(s + r)\n}\n");
  const auto count = [&](const std::string& what, const Change& change) {
    expect_change(what, "x86-64-v3", change, [&](const CpuLimits& limits) { return count_loops(sums, limits).cycles; });
  };
  count("issue_width", [](CpuLimits& l) { l.issue_width = 1; });
  count("window", [](CpuLimits& l) { l.window = 64; });
  count("latency", [](CpuLimits& l) { l.latency = 9; });
  count("short_latency", [](CpuLimits& l) { l.short_latency = 5; });
  CpuLimits slow = parse_target("x86-64-v3").limits;
  slow.division_cost = 20;
  EXPECT_EQ(operation_cost(Op::div, DType::f32, slow), 20);
  EXPECT_EQ(operation_cost(Op::div, DType::i64, slow), 20);
  EXPECT_EQ(operation_cost(Op::mul, DType::f32, slow), 1);
  EXPECT_EQ(operation_cost(Op::sigmoid, DType::f32, slow) -
                operation_cost(Op::sigmoid, DType::f32, parse_target("x86-64-v3").limits),
            12)
      << "its expansion has one division";
}

TEST(Limits, HalosAndFewTilesDecideBetweenTemplates) {
  const tune::TaskOf pair(
      "conv2d n1 c16 h9 w11 k32 r1 s1 f32 +bias +relu => conv2d n1 c32 h9 w11 k32 r3 s3 g32 stride2,2 pad1 f32 +relu",
      "x86-64-v3");
  const Graph& graph = *pair.task->graph;
  const auto weighed = [&](const CpuLimits& limits) {
    return weigh_pair(graph, graph.node(pair.task->feeder.front()), pair.task->node(), limits)->apart;
  };
  expect_change("halo_rate", "x86-64-v3", [](CpuLimits& l) { l.halo_rate = 1; }, weighed);
  const tune::TaskOf conv("conv2d n1 c64 h28 w28 k64 r3 s3 pad1 f32 +bias +relu", "x86-64-v3");
  expect_change(
      "winograd_tiles", "x86-64-v3", [](CpuLimits& l) { l.winograd_tiles = 1000; },
      [&](const CpuLimits& limits) {
        return static_cast<double>(rank(conv2d_winograd, *conv.task, limits, 10).size());
      });
}

TEST(Limits, PrefetchesGoLineByLine) {
  const auto prefetches = [](const std::string& problem, const std::string& schedule, int32_t line_bytes) {
    const tune::TaskOf of(problem, "x86-64-v3");
    CpuLimits limits = of.limits;
    limits.line_bytes = line_bytes;
    const Chosen chosen = choose(*of.task, limits, parse_schedule(schedule));
    int64_t n = 0;
    for (const Stage& stage : chosen.lowered.stages) {
      const std::string text = print(stage.func);
      for (size_t at = text.find("prefetch "); at != std::string::npos; at = text.find("prefetch ", at + 1)) ++n;
    }
    return n;
  };
  for (const auto& [problem, schedule] : std::map<std::string, std::string>{
           {std::string(kConv), "conv2d_direct vectors=2 rows=1 tile=4 prefetch=1024"},
           {"conv2d n1 c64 h28 w28 k64 r3 s3 pad1 f32 +bias +relu",
            "conv2d_winograd m=2 vectors=2 tile=4 count=1 split=0 prefetch=1024"},
           {"conv2d n1 c32 h2 w13 k32 r3 s3 g32 pad1 f32 +bias +clip(0 6)", "conv2d_depthwise tile=4"},
           {"matmul(f32[1,13,1024] f32[1024,64])", "matmul_tiled vectors=2 rows=4 prefetch=1024"},
           {"GRUSteps f32[3,5,111] f32[1,111,37] | | | 2", "recurrent_steps vectors=2 rows=1 prefetch=1024"}}) {
    const int64_t all = prefetches(problem, schedule, 64), half = prefetches(problem, schedule, 128);
    EXPECT_GT(all, half) << problem;
    EXPECT_LE(all, 2 * half) << problem;
    EXPECT_GT(half, 0) << problem;
  }
}

TEST(Limits, TargetDecidesWhichImagesStayPlain) {
  const auto block = [](int32_t planar) {
    CpuLimits limits = parse_target("x86-64-v3").limits;
    limits.planar_channels = planar;
    const PlacedTasks placed = place_tasks(parse_problem("conv2d n1 c16 h14 w14 k32 r3 s3 f32").graph, limits);
    const auto conv = std::ranges::find_if(placed.tasks, [](const Task& t) { return t.ops().starts_with("Conv"); });
    return conv->operand(conv->node().inputs[0]).type.layout.block;
  };
  EXPECT_EQ(block(4), parse_target("x86-64-v3").limits.preferred_block());
  EXPECT_EQ(block(16), 1);
}

}  // namespace
}  // namespace kilter
