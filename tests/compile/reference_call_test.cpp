// Attributes of nodes that run their reference kernel are bitwise unchanged.
#include "compile/reference_call.h"

#include <gtest/gtest.h>

#include <bit>
#include <limits>
#include <nlohmann/json.hpp>

#include "../base/scratch_folder.h"
#include "exec/plan_file.h"
#include "guarded_run.h"
#include "ops/support/builder.h"
#include "ops/support/evaluate.h"

namespace kilter {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

Graph selu(float gamma) {
  Graph graph;
  GraphBuilder b(graph);
  const ValueId x = b.input("x", DType::f32, {6});
  graph.add_output(b.add("Selu", {x}, {{"alpha", 1.5F}, {"gamma", gamma}}), "y");
  return graph;
}

TEST(ReferenceCall, NonFiniteFloatsSurvivePlansAndFiles) {
  const float payload = std::bit_cast<float>(0x7fc12345U);
  const Tensor x = Tensor::of<float>({6}, {1, 2, 0.5F, 3, 4, 5});
  const ScratchFolder folder;
  for (const float gamma : {kInfinity, -kInfinity, payload, 1e-45F, 3.4028235e38F, 0.1F}) {
    const Graph graph = selu(gamma);
    CompileOptions options;
    options.target = native_target();
    options.debug.naive = true;
    const Compiled compiled = compile_graph(graph, options);
    ASSERT_EQ(compiled.plan.steps.at(0).kind, StepKind::reference);
    save_plan(compiled.plan, folder.path() / "selu.plan");
    const Tensor want = evaluate(graph, {x}).at(0);
    for (const Plan& plan : {compiled.plan, load_plan(folder.path() / "selu.plan")}) {
      const Tensor got = run_on(std::make_shared<const Program>(plan), {x}, 1).at(0);
      EXPECT_TRUE(got.same(want)) << gamma;
    }
  }
}

TEST(ReferenceCall, ListsAndInvalidUtf8AreKept) {
  Graph graph;
  GraphBuilder b(graph);
  const ValueId x = b.input("x", DType::f32, {2});
  Attrs attrs{{"floats", std::vector<float>{kInfinity, 1.5F, -kInfinity}},
              {"text", std::string("\xc3\x28")},
              {"texts", std::vector<std::string>{"plain", "\xff"}}};
  const NodeId id = graph.add_node(find_op("", "Relu", 14), "odd", 14, attrs, {x}, {TensorType{DType::f32, {2}, {}}});
  const ReferenceCall call = make_reference_call(graph, graph.node(id));
  const nlohmann::json read = nlohmann::json::parse(call.attrs);
  EXPECT_EQ(read["floats"][1], (nlohmann::json{"7f800000", 1.5, "ff800000"}));
  EXPECT_EQ(read["text"][1], (nlohmann::json{0xc3, 0x28}));
  EXPECT_EQ(read["texts"][1], (nlohmann::json{"plain", nlohmann::json{0xff}}));
}

}  // namespace
}  // namespace kilter
