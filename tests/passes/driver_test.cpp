// The driver's errors for passes that break the graph.
#include <gtest/gtest.h>

#include "compile/pipeline.h"
#include "ops/support/builder.h"

namespace kilter {
namespace {

Graph network() {
  return parse_graph(R"(graph "g" {
  input %x: f32[2,3]
  %a: f32[2,3] = Relu@17 "a"(%x)
  output "y" %a
}
)");
}

std::string said(PassFunction pass) {
  Graph graph = network();
  PassContext context;
  const PassRow row{"broken", pass, "", ""};
  try {
    run_checked(row, graph, context, static_cast<NodeId>(graph.node_count()));
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::internal);
    return error.message();
  }
  return "";
}

TEST(PassDriver, NamesThePassThatReplacesAValueByOneOfAnotherType) {
  EXPECT_EQ(said([](Graph& graph, PassContext&) {
              GraphBuilder b(graph);
              const ValueId a = graph.find_value("a");
              const ValueId wide = b.add("Unsqueeze", {a, b.list(std::vector<int64_t>{0})}, {}, "wide");
              graph.replace_uses(a, wide);
            }),
            "pass broken: graph 'g': 'a' of type f32[2,3] computed by Relu 'a' cannot be replaced by 'wide' of type "
            "f32[1,2,3] computed by Unsqueeze 'wide'; a replacement must have the element type and shape of what it "
            "replaces");
}

TEST(PassDriver, NamesThePassThatChangesAnOutput) {
  EXPECT_EQ(said([](Graph& graph, PassContext&) {
              GraphBuilder b(graph);
              graph.set_output(0, b.add("Cast", {graph.find_value("a")}, {{"to", int64_t{10}}}, "half"));
            }),
            "pass broken: graph 'g': output 'y' has type f16[2,3], expected f32[2,3]");
}

TEST(PassDriver, NamesThePassOfOtherFaults) {
  EXPECT_EQ(said([](Graph& graph, PassContext&) { graph.change_node(0).inputs = {}; }),
            "pass broken: graph 'g' is invalid: Relu 'a' has 0 inputs, expected 1 or more");
  EXPECT_TRUE(said([](Graph& graph, PassContext&) { graph.value(kNone); }).starts_with("pass broken: "));
}

TEST(PassDriver, AcceptsCorrectPasses) {
  EXPECT_EQ(said([](Graph&, PassContext&) {}), "");
}

}  // namespace
}  // namespace kilter
