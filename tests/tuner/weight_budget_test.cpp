// The limit on packed weights: the schedules that the search keeps and drops, and the weights of variants and plans.
#include "tune/tuner/plans/weight_budget.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "network.h"

namespace kilter::tune {
namespace {

TEST(WeightBudget, LeastGainPerByteIsDroppedFirst) {
  const std::vector<WeightClaim> claims{{3, 100, 5}, {5, 10, 1}, {7, -20, 2}, {9, 100, 4}};
  EXPECT_EQ(first_to_go(claims, 190), std::nullopt) << "they take 190 together";
  EXPECT_EQ(first_to_go(claims, 189), 9U);
  EXPECT_EQ(first_to_go(std::vector<WeightClaim>{{7, -20, 2}}, -50), std::nullopt) << "it takes none";
  EXPECT_EQ(first_to_go({}, -1), std::nullopt);
}

/// A network in which some layers gave up Winograd because its weights exceeded the memory limit.
class Slimmed : public testing::Test {
 protected:
  Slimmed() : graph_(small_network()) {
    CompileOptions options = native();
    const Compiled fast = compile_graph(graph_, options);
    options.budget.memory = fast.plan.arena_bytes + fast.weight_bytes - (64 << 10);
    RunnerOptions runner = worker();
    runner.inputs = inputs_of(graph_);
    bench_ = std::make_unique<NetworkBench>(graph_, options, std::move(runner));
  }
  const Compiled& fallback() const { return bench_->fallback().compiled; }

  Graph graph_;
  std::unique_ptr<NetworkBench> bench_;
};

TEST_F(Slimmed, TrialsOfALayerChangeNoOtherLayer) {
  ASSERT_FALSE(fallback().slimmed.empty());
  const std::vector<NetworkTask> tasks = bench_->tasks();
  const auto same = [&](const std::string& node) {
    return std::ranges::find(fallback().slimmed, node) == fallback().slimmed.end();
  };
  // In a variant, one layer may exceed the limit on weights; layers that gave up Winograd keep their smaller weights.
  const CpuLimits& limits = bench_->options().target.limits;
  for (const NetworkTask& task : tasks) {
    for (const Ranked& r : rank(*find_template("conv2d_winograd"), task.task, limits, 1)) {
      const int64_t more = packed_bytes(task.task, r.schedule, limits) - packed_bytes(task.task, task.fallback, limits);
      if (more <= weight_room(fallback())) continue;
      const auto variant = bench_->build({{task.nodes.front(), r.schedule}});
      EXPECT_GT(variant->compiled.weight_bytes, variant->compiled.weight_limit);
      for (const auto& [node, steps] : variant->steps) {
        const auto before = fallback().plan.steps[bench_->fallback().steps.at(node).front()].schedule;
        const auto& now = variant->compiled.plan.steps[steps.front()].schedule;
        if (node == task.nodes.front()) continue;
        EXPECT_EQ(now, before) << node << (same(node) ? "" : ", which gave up weights");
      }
      return;
    }
  }
  FAIL() << "no layer has larger weights to try";
}

TEST_F(Slimmed, KeptPlansIncludeSlimmedSchedules) {
  EXPECT_TRUE(with_slimmed({}, fallback()).empty()) << "the default plan needs no words";
  const std::string other = fallback().slimmed.front() == "conv1" ? "fire2.squeeze" : "conv1";
  const Schedule tile = parse_schedule("conv2d_direct vectors=1 rows=1 tile=1 prefetch=0");
  Choices kept = with_slimmed({{other, tile}}, fallback());
  EXPECT_EQ(kept.at(other), LayerChoice(tile));
  for (const std::string& node : fallback().slimmed) {
    ASSERT_TRUE(kept.contains(node));
    EXPECT_EQ(kept.at(node).schedule->text(), slimmed_schedules(fallback()).at(node).schedule->text());
  }
  // Compiled again with the limit, the network has the same plan that was raced.
  CompileOptions options = bench_->options();
  for (const auto& [node, choice] : kept) options.choices[node] = preferred(*choice.schedule);
  const Compiled again = compile_graph(graph_, options);
  EXPECT_TRUE(again.slimmed.empty()) << "nothing more is given up";
  EXPECT_LE(again.weight_bytes, again.weight_limit);
}

}  // namespace
}  // namespace kilter::tune
