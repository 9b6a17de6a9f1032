// The memory of plans, and the predicted effect of schedules on it.
#include "tune/tuner/plan_memory.h"

#include <gtest/gtest.h>

#include "network.h"

namespace kilter::tune {
namespace {

int64_t bytes_without_code(const Variant& variant) {
  const PlanMemory memory = plan_memory(variant.compiled, 1);
  return memory.bytes() - memory.code;
}

TEST(PlanMemory, MatchesTheCompiledNetwork) {
  const Graph graph = small_network();
  const NetworkBench bench = bench_of(graph);
  const Compiled alone = compile_graph(graph, native());
  const PlanMemory memory = plan_memory(bench.fallback().compiled, 2);
  EXPECT_EQ(memory.arena, alone.plan.arena_bytes);
  EXPECT_EQ(memory.scratch, 2 * alone.plan.scratch_bytes);
  EXPECT_EQ(memory.code, alone.plan.code_bytes);
  EXPECT_EQ(memory.weights, alone.plan.constants_bytes) << "the variants' shared block is larger";
  EXPECT_EQ(memory.bytes(), memory.weights + memory.arena + memory.scratch + memory.code);
  EXPECT_EQ(bytes_ratio({.weights = 100, .code = 100}, {.arena = 50}), 0.25);
}

/// The predicted effect of the best schedule of each template and task is exactly that of the plan with that schedule.
TEST(PlanMemory, IsPredictedForOtherSchedules) {
  NetworkBench bench = bench_of(small_network());
  const CpuLimits& limits = bench.options().target.limits;
  const LayerMemory memory(bench.fallback().compiled, limits, 1);
  const int64_t before = bytes_without_code(bench.fallback());
  int64_t less = 0, more = 0;
  for (const NetworkTask& task : bench.tasks()) {
    EXPECT_EQ(memory.more(task.nodes, task.fallback), 0) << task.problem;
    for (const Template* from : all_templates()) {
      for (const Ranked& r : rank(*from, task.task, limits, 1)) {
        Choices choices;
        for (const std::string& node : task.nodes) choices[node] = r.schedule;
        const int64_t predicted = memory.more(task.nodes, r.schedule);
        EXPECT_EQ(bytes_without_code(*bench.build(choices)) - before, predicted)
            << task.problem << " with " << r.schedule.text();
        less += predicted < 0 ? 1 : 0, more += predicted > 0 ? 1 : 0;
      }
    }
  }
  EXPECT_GT(less + more, 0) << "the templates of convolutions differ in bytes";
}

TEST(PlanMemory, InapplicableSchedulesChangeNothing) {
  const NetworkBench bench = bench_of(small_network());
  const LayerMemory memory(bench.fallback().compiled, bench.options().target.limits, 1);
  EXPECT_EQ(memory.more({"conv1"}, parse_schedule("no_such_template")), 0);
  EXPECT_EQ(memory.more({"no such layer"}, parse_schedule("map item=4096")), 0);
}

}  // namespace
}  // namespace kilter::tune
