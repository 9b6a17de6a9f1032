// merge_nodes(): equal nodes of a program run once.
#include "vm/merge_nodes.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "../onnx/loop_model.h"
#include "../onnx/model_maker.h"
#include "vm/program.h"

namespace kilter {
namespace {

using onnx::add_attribute;
using onnx::add_node;
using onnx::ModelMaker;
using onnx::set_tensor_type;

constexpr int32_t kFloat = 1, kInt64 = 7, kBool = 9;

std::string program_of(const ModelMaker& maker) { return vm::text(vm::make_program(maker.parse()->open_graph())); }

/// Two lists of the places where a x `scales` is not 0, joined.
ModelMaker two_searches(const std::vector<std::vector<float>>& scales) {
  ModelMaker maker;
  maker.input("x", {100});
  std::vector<std::string> joined;
  for (const std::vector<float>& scale : scales) {
    const std::string n = std::to_string(joined.size());
    onnx::set_floats(maker.initializer(), "k" + n, {static_cast<int64_t>(scale.size())}, scale);
    maker.node("Mul", {"x", "k" + n}, {"m" + n}, "scale" + n);
    maker.node("NonZero", {"m" + n}, {"where" + n}, "find" + n);
    joined.push_back("where" + n);
  }
  maker.node("Concat", joined, {"all"}, "join");
  maker.graph().mutable_node()->rbegin()->add_attribute()->set_name("axis");
  maker.graph().mutable_node()->rbegin()->mutable_attribute(0)->set_type(2);
  maker.output("all", {"rows", "n"}, kInt64);
  return maker;
}

TEST(MergeNodes, EqualHostNodesRunOnce) {
  const std::vector<float> scale(100, 2);
  EXPECT_EQ(program_of(two_searches({scale, scale})),
            "function 0(%x) -> (%all)\n"
            "  %m0 = segment 0 of 1 nodes(%x)\n"
            "  %where0 = NonZero 'find0'(%m0)\n"
            "  %all = segment 1 of 1 nodes(%where0)\n");
}

TEST(MergeNodes, NodesWithOtherConstantsAreNotMerged) {
  std::vector<float> other(100, 2);
  other[60] = 3;
  EXPECT_EQ(program_of(two_searches({std::vector<float>(100, 2), other})),
            "function 0(%x) -> (%all)\n"
            "  %m0, %m1 = segment 0 of 2 nodes(%x)\n"
            "  %where0 = NonZero 'find0'(%m0)\n"
            "  %where1 = NonZero 'find1'(%m1)\n"
            "  %all = segment 1 of 1 nodes(%where0, %where1)\n");
}

TEST(MergeNodes, IdentityIsReplacedByItsInput) {
  ModelMaker maker = two_searches({std::vector<float>(100, 2)});
  maker.node("Identity", {"k0"}, {"k1"}, "alias");
  maker.node("Mul", {"x", "k1"}, {"m1"}, "scale1");
  maker.node("NonZero", {"m1"}, {"where1"}, "find1");
  for (int i = 2; i < 5; ++i) maker.graph().mutable_node()->SwapElements(i, i + 1);  // Concat last
  maker.graph().mutable_node(5)->add_input("where1");
  EXPECT_EQ(program_of(maker),
            "function 0(%x) -> (%all)\n"
            "  %m0 = segment 0 of 1 nodes(%x)\n"
            "  %where0 = NonZero 'find0'(%m0)\n"
            "  %all = segment 1 of 1 nodes(%where0)\n");
}

TEST(MergeNodes, OutputNodesAreNotMerged) {
  ModelMaker maker;
  maker.input("x", {100});
  for (const char* name : {"a", "b"}) {
    maker.node("NonZero", {"x"}, {name}, std::string("find_") + name);
    maker.output(name, {1, "n"}, kInt64);
  }
  const auto graph = maker.parse()->open_graph();
  EXPECT_EQ(vm::merge_nodes(graph), graph);
}

/// z = y0 + y1 of two loops whose bodies apply `ops` to the state.
ModelMaker two_loops(const std::vector<std::string>& ops) {
  ModelMaker maker;
  maker.input("n", {}, kInt64);
  maker.input("x", {2});
  std::vector<std::string> made;
  for (const std::string& op : ops) {
    const std::string y = "y" + std::to_string(made.size());
    auto& loop = maker.node("Loop", {"n", "", "x"}, {y}, "loop_" + y);
    auto& body = *add_attribute(loop, "body", onnx::kGraphAttr).mutable_g();
    set_tensor_type(*body.add_input(), "i", {}, kInt64);
    set_tensor_type(*body.add_input(), "go", {}, kBool);
    set_tensor_type(*body.add_input(), "v", {2});
    add_node(*body.add_node(), "Identity", {"go"}, {"go_on"}, "");
    add_node(*body.add_node(), op, {"v"}, {"w"}, op + y);
    set_tensor_type(*body.add_output(), "go_on", {}, kBool);
    set_tensor_type(*body.add_output(), "w", {2}, kFloat);
    made.push_back(y);
  }
  maker.node("Add", made, {"z"}, "sum");
  maker.output("z", {2});
  return maker;
}

size_t loops_in(const ModelMaker& maker) {
  const auto merged = vm::merge_nodes(maker.parse()->open_graph());
  return static_cast<size_t>(
      std::ranges::count_if(merged->nodes, [](const OpenNode& node) { return !node.regions.empty(); }));
}

TEST(MergeNodes, LoopsWithEqualBodiesRunOnce) {
  EXPECT_EQ(loops_in(two_loops({"Exp", "Exp"})), 1U);
  EXPECT_EQ(loops_in(two_loops({"Exp", "Abs"})), 2U);
}

TEST(MergeNodes, RandomNodesInBodiesAreNotMerged) {
  EXPECT_EQ(loops_in(two_loops({"RandomNormalLike", "RandomNormalLike"})), 2U);
}

TEST(MergeNodes, NodesInsideABodyAreMerged) {
  ModelMaker maker = onnx::doubling_loop();
  auto& body = *maker.graph().mutable_node(1)->mutable_attribute(0)->mutable_g();
  body.mutable_node(1)->set_input(0, "p");
  body.mutable_node(1)->set_input(1, "q");
  for (const char* name : {"p", "q"}) add_node(*body.add_node(), "Exp", {"v"}, {name}, name);
  body.mutable_node()->SwapElements(1, 3);  // producers first
  const auto merged = vm::merge_nodes(maker.parse()->open_graph());
  const OpenGraph& inner = *merged->nodes[1].regions[0].graph;
  ASSERT_EQ(inner.nodes.size(), 3U);  // Identity, Exp, Add
  EXPECT_EQ(inner.nodes[2].inputs[0], inner.nodes[2].inputs[1]);
}

}  // namespace
}  // namespace kilter
