// A whole tuning run for memory, compared with one for latency.
#include <gtest/gtest.h>

#include "short_run.h"

namespace kilter::tune {
namespace {

TuneResult tuned_for(const std::string& objective) {
  std::vector<Record> kept;
  TuneOptions options = short_run(kept);
  options.objective = parse_objective(objective);
  options.trials = 60, options.seconds = 15;  // the races take three of them
  const Graph graph = small_network();
  return tune(graph, inputs_of(graph), native(), options);
}

/// Under `memory`, the accepted plan is smaller than the default plan and than the one that is tuned for latency. Its
/// bytes are those of the network that is compiled with it.
TEST(MemoryObjective, TheAcceptedPlanIsSmaller) {
  const TuneResult fast = tuned_for("latency"), small = tuned_for("memory");
  EXPECT_FALSE(small.same_plan);
  EXPECT_LE(small.score().high, 1);
  EXPECT_LT(small.tuned_memory.bytes(), small.default_memory.bytes());
  EXPECT_LT(small.tuned_memory.bytes(), fast.tuned_memory.bytes());
  EXPECT_EQ(small.default_memory.bytes(), fast.default_memory.bytes());
  EXPECT_LE(fast.ratio.high, 1) << "time alone decides";
  CompileOptions options = native();
  options.choices = small.choices;
  const Compiled compiled = compile_graph(small_network(), options);
  EXPECT_EQ(compiled.plan.constants_bytes, small.tuned_memory.weights);
  EXPECT_EQ(compiled.plan.arena_bytes, small.tuned_memory.arena);
}

}  // namespace
}  // namespace kilter::tune
