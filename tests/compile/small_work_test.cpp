// Steps with little work stay on the caller's thread; all threads share large ones.
#include <gtest/gtest.h>

#include <algorithm>

#include "compile/compile.h"
#include "ops/support/builder.h"

namespace kilter {
namespace {

/// One operator over f32[rows, columns] and, for gathers, as many indices as rows.
struct OneOperator {
  const char* op;
  Attrs attrs;
  bool indexed = false;
};

const OneOperator kRows[] = {
    {"Softmax", {{"axis", int64_t{1}}}},      {"ReduceMean", {{"keepdims", int64_t{1}}}},
    {"ArgMax", {{"axis", int64_t{1}}}},       {"Relu", {}},
    {"Gather", {{"axis", int64_t{0}}}, true}, {"GatherElements", {{"axis", int64_t{0}}}, true},
};

Plan plan_of(const OneOperator& one, int64_t rows, int64_t columns, const std::string& target) {
  Graph graph;
  GraphBuilder b(graph, 17);
  std::vector<ValueId> inputs{b.input("x", DType::f32, {rows, columns})};
  if (one.indexed)
    inputs.push_back(
        b.input("i", DType::i64, std::string_view(one.op) == "Gather" ? Shape{rows} : Shape{rows, columns}));
  Attrs attrs = one.attrs;
  if (std::string_view(one.op) == "ReduceMean") attrs["axes"] = std::vector<int64_t>{1};
  graph.add_output(b.add(one.op, inputs, attrs, "node"), "y");
  CompileOptions options;
  options.target = parse_target(target);
  options.contents.code = false;
  return compile_graph(std::move(graph), options).plan;
}

TEST(SmallWork, RowsOfTwoKilobytesRunOnOneThread) {
  for (const char* target : {"x86-64-v2", "x86-64-v3", "x86-64-v4", "znver5", "neoverse-v1"}) {
    for (const OneOperator& one : kRows) {
      const Plan plan = plan_of(one, 8, 64, target);
      ASSERT_FALSE(plan.steps.empty()) << one.op;
      for (const Step& step : plan.steps) {
        EXPECT_TRUE(step.max_threads == 1 || step.extent == 1)
            << one.op << " on " << target << ": " << step.name << " " << step.extent << " items on " << step.max_threads
            << " threads";
      }
    }
  }
}

TEST(SmallWork, RowsOfMegabytesRunOnAllThreads) {
  for (const char* target : {"x86-64-v3", "x86-64-v4"}) {
    for (const OneOperator& one : kRows) {
      const Plan plan = plan_of(one, 4096, 1024, target);
      const auto most = std::ranges::max_element(plan.steps, {}, &Step::bytes);
      EXPECT_TRUE(most->max_threads == 0 || most->max_threads >= 64) << one.op << " " << most->max_threads;
    }
  }
}

}  // namespace
}  // namespace kilter
