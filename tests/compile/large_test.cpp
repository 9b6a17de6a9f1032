// Networks with very many nodes, and nodes with very many operands: equal tasks are lowered once, and compile time is
// proportional to size. tests/e2e/scale_test.py checks the same from outside.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <functional>

#include "compile/session.h"
#include "guarded_run.h"
#include "ops/support/builder.h"
#include "ops/support/evaluate.h"
#include "schedule/emit.h"

namespace kilter {
namespace {

struct Net {
  Graph graph;
  GraphBuilder b{graph};
  ValueId x = b.input("x", DType::f32, {4, 8});

  Graph ended(ValueId y) {
    graph.add_output(y, "y");
    return std::move(graph);
  }
};

Graph chain(int64_t n) {
  Net net;
  ValueId v = net.x;
  for (int64_t i = 0; i < n; ++i) v = net.b.add(i % 2 == 0 ? "Softmax" : "Sin", {v});
  return net.ended(v);
}

Graph parts(int64_t n) {
  Net net;
  std::vector<ValueId> all;
  for (int64_t i = 0; i < n; ++i)
    all.push_back(net.b.add(i % 2 == 0 ? "Softmax" : "Sin", {all.empty() ? net.x : all.back()}));
  return net.ended(net.b.add("Concat", all, {{"axis", int64_t{0}}}));
}

Graph cut(int64_t n) {
  Net net;
  const ValueId long_x = net.b.input("long", DType::f32, {n, 8});
  GraphBuilder::Options options;
  options.output_count = static_cast<size_t>(n);
  const std::vector<ValueId> all = net.b.add("Split", {long_x}, {{"axis", int64_t{0}}}, options);
  ValueId sum = net.x;
  for (const ValueId part : all) sum = net.b.add("Add", {sum, part});
  return net.ended(sum);
}

Graph wide(std::string_view op, int64_t n, DType type = DType::f32) {
  Graph graph;
  GraphBuilder b(graph);
  std::array<ValueId, 3> from{};
  from[0] = b.input("x", type, {4, 8});
  from[1] = b.input("z", type, {8});
  from[2] = b.add("Neg", {from[0]});
  std::vector<ValueId> all;
  for (int64_t i = 0; i < n; ++i) all.push_back(from[static_cast<size_t>(i % 3)]);
  graph.add_output(b.add(op, all), "y");
  return graph;
}

using Maker = Graph (*)(int64_t);

double seconds_to_lower(const Graph& graph) {
  CompileOptions options;
  options.target = parse_target("x86-64-v3");
  options.contents.code = false;
  const auto now = [] {
    timespec at{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &at);
    return static_cast<double>(at.tv_sec) + static_cast<double>(at.tv_nsec) * 1e-9;
  };
  const double start = now();
  compile_graph(graph, options);
  return now() - start;
}

TEST(LargeGraphs, CompileTimeIsLinear) {
  for (const auto& [name, make] : {std::pair<const char*, Maker>{"chain", chain}, {"parts", parts}, {"cut", cut}}) {
    const Graph small = make(3000), large = make(12000);
    double least = 1e9, most = 1e9;
    for (int i = 0; i < 3; ++i) {
      least = std::min(least, seconds_to_lower(small));
      most = std::min(most, seconds_to_lower(large));
    }
    EXPECT_LT(most / least, 8) << name << ": " << least << " s for 3000 nodes, " << most << " s for 12000";
  }
}

TEST(LargeGraphs, SimilarTasksShareKernels) {
  for (const Maker make : {chain, parts, cut}) {
    const Graph graph = make(40);
    const auto compiled = compile_for(graph, native_target());
    EXPECT_GE(compiled.plan.steps.size(), 3U);
    EXPECT_LE(compiled.plan.entries.size(), 6U) << steps_text(compiled.plan);
    std::vector<Tensor> inputs;
    for (const PlanTensor& in : compiled.plan.inputs) inputs.push_back(random_input(in.name, in.type, in.shape, 7));
    const auto program = std::make_shared<const Program>(compiled.plan);
    EXPECT_EQ(run_guarded(program, inputs, evaluate(graph, inputs), {.rtol = 1e-4, .atol = 1e-5}, 0), "");
  }
}

TEST(LargeGraphs, OperatorsOfManyOperandsRunInGroups) {
  for (const std::string_view op : {"Sum", "Max", "Min", "Mean"}) {
    for (const int64_t n : {31, 32, 33, 63, 64, 200}) {
      const Graph graph = wide(op, n);
      const auto compiled = compile_for(graph, native_target());
      for (const Step& step : compiled.plan.steps) {
        EXPECT_EQ(step.kind, StepKind::kernel) << op << " of " << n;
        EXPECT_LE(step.args.size(), 2 * kMostMapOperands + 1) << op << " of " << n;
      }
      std::vector<Tensor> inputs;
      for (const PlanTensor& in : compiled.plan.inputs) inputs.push_back(random_input(in.name, in.type, in.shape, 7));
      const auto program = std::make_shared<const Program>(compiled.plan);
      EXPECT_EQ(run_guarded(program, inputs, evaluate(graph, inputs), {.rtol = 1e-5, .atol = 1e-5}, 0), "")
          << op << " of " << n;
    }
  }
}

TEST(LargeGraphs, SumsOfManyNarrowFloatsAreNotRoundedInBetween) {
  const Graph graph = wide("Sum", 100, DType::f16);
  const auto compiled = compile_for(graph, native_target());
  for (const Step& step : compiled.plan.steps) EXPECT_EQ(step.kind, StepKind::kernel) << step.name;
  std::vector<Tensor> inputs;
  for (const PlanTensor& in : compiled.plan.inputs) inputs.push_back(random_input(in.name, in.type, in.shape, 7));
  const auto program = std::make_shared<const Program>(compiled.plan);
  EXPECT_EQ(run_guarded(program, inputs, evaluate(graph, inputs), {.rtol = 0, .atol = 0, .scaled = false}, 0), "");
}

TEST(LargeGraphs, HundredThousandOperandsCompile) {
  for (const std::string_view op : {"Sum", "Max", "Concat"}) {
    Net net;
    std::vector<ValueId> all(100000, net.x);
    Attrs attrs;
    if (op == "Concat") attrs["axis"] = int64_t{0};
    const ValueId y = net.b.add(op, all, attrs);
    const Graph graph = net.ended(y);
    for (const bool naive : {false, true}) {
      CompileOptions options;
      options.target = native_target();
      options.debug.naive = naive;
      options.contents.code = false;
      EXPECT_GE(compile_graph(graph, options).plan.steps.size(), 1U);
    }
  }
}

TEST(LargeGraphs, ProgressIsReportedToTheEnd) {
  CompileOptions options;
  options.target = native_target();
  options.contents.code = false;
  std::vector<std::string> stages;
  options.report.progress = [&](const CompileStage& stage) {
    EXPECT_LE(stage.done, stage.of);
    if (stages.empty() || stages.back() != stage.name) stages.emplace_back(stage.name);
  };
  compile_graph(chain(500), options);
  ASSERT_GT(stages.size(), all_passes().size());
  EXPECT_EQ(stages.front(), all_passes().front().name);
  EXPECT_EQ(stages[stages.size() - 2], "make steps");
  EXPECT_EQ(stages.back(), "");
}

// A progress display stops only if it is stopped explicitly. Otherwise a tuner that builds several plans of one graph
// would show "make steps" over its summary.
TEST(LargeGraphs, ProgressEndsWithEachHalfAndWithErrors) {
  CompileOptions options;
  options.target = native_target();
  options.contents.code = false;
  std::string stage;
  options.report.progress = [&](const CompileStage& s) { stage = s.name; };
  const PassedGraph passed = run_passes(chain(50), options);
  EXPECT_EQ(stage, "");
  stage = "not told";
  compile_passed(passed, options);
  EXPECT_EQ(stage, "");
  stage = "not told";
  options.budget.memory = 1;
  EXPECT_THROW(compile_graph(chain(50), options), Error);
  EXPECT_EQ(stage, "");
}

}  // namespace
}  // namespace kilter
