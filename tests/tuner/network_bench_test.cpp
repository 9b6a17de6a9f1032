// Variants of a network, including those for whose choices the passes return a different graph.
#include "tune/tuner/network_bench.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "network.h"
#include "tune/tuner/tasks/task_list.h"

namespace kilter::tune {
namespace {

class Bench : public testing::Test {
 protected:
  Bench() : graph_(small_network()), bench_(graph_, native(), runner()) {}
  RunnerOptions runner() const {
    RunnerOptions options = worker();
    options.inputs = inputs_of(graph_);
    return options;
  }
  static LayerChoice fused(Fusion fusion) {
    LayerChoice choice;
    choice.fuse = fusion;
    return choice;
  }
  static LayerChoice plain() {
    LayerChoice choice;
    choice.plain = true;
    return choice;
  }

  Graph graph_;
  NetworkBench bench_;
};

TEST_F(Bench, VariantsWithOtherPassesComputeTheSame) {
  const auto variant = bench_.build({{"fire2.squeeze", fused(Fusion::none)}, {"pool3", plain()}});
  EXPECT_TRUE(variant->steps.contains("fire2.squeeze.relu"));
  EXPECT_FALSE(bench_.fallback().steps.contains("fire2.squeeze.relu"));
  EXPECT_GT(variant->compiled.plan.steps.size(), bench_.fallback().compiled.plan.steps.size());
  const Loaded loaded = bench_.load(*variant);
  ASSERT_TRUE(loaded.id.has_value());
  for (const Fault& fault : loaded.faults) ADD_FAILURE() << fault.words;
  const std::vector<VariantId> ids{bench_.fallback_id(), *loaded.id};
  const Laps laps = bench_.runner().measure(ids);
  EXPECT_TRUE(laps.faults.empty());
  EXPECT_FALSE(laps.laps[1].empty());
}

TEST_F(Bench, LayersWithDifferentForbidsAreSeparateTasks) {
  const auto with_two_layers = [](const NetworkTask& t) { return t.nodes.size() > 1; };
  const std::vector<NetworkTask> before = bench_.tasks();
  const auto task = std::ranges::find_if(before, with_two_layers);
  ASSERT_NE(task, before.end());
  CompileOptions options = native();
  Schedule unusual = task->fallback;  // forbidding a schedule that is not a default does not change those that run
  for (auto& [knob, value] : unusual.knobs) value += knob == "tile" ? 1 : 0;
  options.forbidden = {{unusual, task->nodes[1]}};
  const NetworkBench apart(graph_, options, runner());
  const std::vector<NetworkTask> after = apart.tasks();
  EXPECT_EQ(after.size(), before.size() + 1);
  for (const NetworkTask& t : after) {
    if (std::ranges::find(t.nodes, task->nodes[1]) != t.nodes.end()) {
      EXPECT_EQ(t.nodes.size(), 1U);
    }
  }
}

/// The tuner gives tasks the numbers that options accept, even if schedules of single layers are pinned or forbidden.
TEST_F(Bench, TaskNumbersMatchKilterTasks) {
  CompileOptions options = native();
  options.choices["conv1"].schedule = parse_schedule("conv2d_direct vectors=1 rows=1 tile=7 prefetch=0"),
  options.choices["fire3.expand1x1"].schedule = parse_schedule("conv2d_direct vectors=1 rows=1 tile=7 prefetch=0");
  options.forbidden = {parse_forbidden("conv2d_winograd@fire4.expand3x3")};
  const NetworkBench bench(graph_, options, runner());
  options.contents.code = false, options.contents.tasks = true;
  std::map<int64_t, TaskLine> listed;
  for (const TaskLine& t : list_tasks(graph_, compile_graph(graph_, options), options).tasks) listed[t.task] = t;
  const std::vector<NetworkTask> tasks = bench.tasks();
  EXPECT_GT(tasks.back().number, static_cast<int64_t>(tasks.size())) << "pinned layers keep their numbers";
  for (const NetworkTask& task : tasks) {
    ASSERT_TRUE(listed.contains(task.number)) << task.problem;
    const TaskLine& line = listed.at(task.number);
    EXPECT_EQ(task.problem, line.problem);
    EXPECT_EQ(task.layouts, line.layouts);
    EXPECT_EQ(task.fallback.text(), line.schedule);
    EXPECT_EQ(task.nodes, line.nodes);
  }
}

/// Sets the caches of Zen 4 with a smaller L1. With these, some pairs of convolutions are fused and some are not, on
/// any processor; a large L1 would fuse all pairs.
void give_small_caches(CpuLimits& limits) {
  const CpuLimits like = parse_target("znver4").limits;
  limits.l1_bytes = 16 << 10, limits.l2_bytes = like.l2_bytes, limits.l3_bytes = like.l3_bytes;
  limits.l3_rate = like.l3_rate, limits.memory_rate = like.memory_rate, limits.prefetch_bytes = like.prefetch_bytes;
}

/// In MobileNet-v2, some depthwise convolutions are fused with the convolutions before them. A variant can fuse others
/// and keep these apart.
TEST(NetworkBench, DepthwiseConvolutionsRunFusedAndSeparate) {
  CompileOptions options = native();
  give_small_caches(options.target.limits);
  NetworkBench bench = bench_of(zoo::build("mobilenet_v2", {.classes = 10}), options);
  Choices choices;
  std::vector<std::string> joined, apart;  // by default
  for (const Step& step : bench.fallback().compiled.plan.steps) {
    if (step.schedule.starts_with("conv2d_then_depthwise")) joined.push_back(step.name);
    if (step.schedule.starts_with("conv2d_depthwise")) apart.push_back(step.name);
  }
  ASSERT_FALSE(joined.empty());
  ASSERT_FALSE(apart.empty());
  choices[joined.front()].fuse = Fusion::apart;
  choices[apart.back()].fuse = Fusion::before;
  const auto variant = bench.build(choices);
  const auto schedule = [&](const std::string& node) {
    return variant->compiled.plan.steps[variant->steps.at(node).front()].schedule;
  };
  EXPECT_TRUE(schedule(joined.front()).starts_with("conv2d_depthwise")) << schedule(joined.front());
  EXPECT_TRUE(schedule(apart.back()).starts_with("conv2d_then_depthwise")) << schedule(apart.back());
  EXPECT_EQ(variant->compiled.plan.steps.size(), bench.fallback().compiled.plan.steps.size());
  const Loaded loaded = bench.load(*variant);
  ASSERT_TRUE(loaded.id.has_value());
  for (const Fault& fault : loaded.faults) ADD_FAILURE() << fault.words;
}

/// Building other variants must not release the weights of one that waits to be loaded.
TEST_F(Bench, TriedVariantsDoNotEvictWaitingOnes) {
  const std::vector<NetworkTask> tasks = bench_.tasks();
  const auto conv = std::ranges::find(tasks, "conv2d_direct", [](const NetworkTask& t) { return t.fallback.name; });
  ASSERT_NE(conv, tasks.end());
  const std::string& node = conv->nodes.front();
  const auto with_tile = [&](int64_t vectors, int64_t tile) {
    return parse_schedule(fmt::format("conv2d_direct vectors={} rows=1 tile={} prefetch=0", vectors, tile));
  };
  const auto waiting = bench_.build({{node, with_tile(1, 3)}});
  for (int64_t i = 0; i < 30; ++i) bench_.try_build({{node, with_tile(2, 1 + i % 6)}});
  EXPECT_THROW(bench_.try_build({{node, parse_schedule("matmul_tiled")}}), Error);
  const Loaded loaded = bench_.load(*waiting);
  ASSERT_TRUE(loaded.id.has_value());
  EXPECT_TRUE(loaded.faults.empty());
  bench_.runner().drop(*loaded.id);
}

TEST(CpuShares, MeasuringHasItsOwnCpusIfThereAreEnough) {
  const CpuShares two = share_cpus({0, 1}, 1);
  EXPECT_TRUE(two.apart);
  EXPECT_EQ(two.measuring, std::vector<int>{1});
  EXPECT_EQ(two.building, std::vector<int>{0});
  const CpuShares many = share_cpus({2, 3, 5, 8, 9}, 2);
  EXPECT_EQ(many.measuring, (std::vector<int>{8, 9}));
  EXPECT_EQ(many.building, (std::vector<int>{2, 3, 5}));
  for (const int threads : {2, 3}) {
    const CpuShares all = share_cpus({0, 1}, threads);
    EXPECT_FALSE(all.apart);
    EXPECT_EQ(all.measuring, all.building);
    EXPECT_EQ(all.measuring, (std::vector<int>{0, 1}));
  }
}

TEST(CpuShares, MeasuringCoresDoNotCompile) {
  const CpuShares neighbours = share_cpus({0, 1, 2, 3}, 1, {0, 0, 2, 2});
  EXPECT_EQ(neighbours.measuring, std::vector<int>{3});
  EXPECT_EQ(neighbours.building, (std::vector<int>{0, 1}));
  const CpuShares halves = share_cpus({0, 1, 2, 3, 4, 5}, 2, {0, 1, 2, 0, 1, 2});
  EXPECT_EQ(halves.measuring, (std::vector<int>{4, 5}));
  EXPECT_EQ(halves.building, (std::vector<int>{0, 3}));
  const CpuShares one_core = share_cpus({0, 1}, 1, {0, 0});
  EXPECT_FALSE(one_core.apart);
  EXPECT_EQ(one_core.building, (std::vector<int>{0, 1}));
}

TEST(CpuShares, CoresOfThisMachineAreRead) {
  const std::vector<int> cpus = affinity_cpus(), cores = cores_of(cpus);
  ASSERT_EQ(cores.size(), cpus.size());
  for (size_t i = 0; i < cpus.size(); ++i) EXPECT_LE(cores[i], cpus[i]);
  EXPECT_EQ(cores_of({1 << 20}), std::vector<int>{1 << 20});
}

TEST_F(Bench, GraphFormsAreEvictedExceptTheDefault) {
  const std::string plan = bench_.fallback().compiled.plan.steps.back().name;
  const std::vector<std::string> nodes = {"fire2.squeeze", "fire3.squeeze", "fire4.squeeze", "fire5.squeeze",
                                          "fire6.squeeze", "fire7.squeeze", "fire8.squeeze", "fire9.squeeze",
                                          "conv1",         "conv10"};
  for (int time = 0; time < 2; ++time) {
    for (const std::string& node : nodes) {
      const auto variant = bench_.build({{node, fused(Fusion::none)}});
      EXPECT_TRUE(variant->steps.contains(node + ".relu")) << node;
      const Loaded loaded = bench_.load(*variant);
      ASSERT_TRUE(loaded.id.has_value()) << node;
      EXPECT_TRUE(loaded.faults.empty()) << node;
      bench_.runner().drop(*loaded.id);
    }
  }
  const auto again = bench_.build({});
  EXPECT_EQ(again->steps, bench_.fallback().steps);
}

TEST_F(Bench, LayerThreadsAffectOnlyItsStep) {
  LayerChoice one;
  one.threads = 1;
  const auto variant = bench_.build({{"conv1", one}});
  const std::vector<Step>&steps = variant->compiled.plan.steps, &others = bench_.fallback().compiled.plan.steps;
  ASSERT_EQ(steps.size(), others.size());
  for (size_t i = 0; i < steps.size(); ++i)
    EXPECT_EQ(steps[i].max_threads, steps[i].name == "conv1" ? 1 : others[i].max_threads) << steps[i].name;
}

TEST_F(Bench, UnknownNamesAreRefused) {
  try {
    bench_.build({{"nothing", fused(Fusion::none)}});
    FAIL() << "accepted";
  } catch (const Error& e) {
    EXPECT_NE(e.message().find("--no-fuse nothing: no task has this name; legal values are"), std::string::npos)
        << e.message();
  }
}

}  // namespace
}  // namespace kilter::tune
