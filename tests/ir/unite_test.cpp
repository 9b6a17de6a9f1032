// Several graphs united into one.
#include "graph/unite.h"

#include <gtest/gtest.h>

#include "ops/op.h"

namespace kilter {
namespace {

/// y = Relu(x) + k.
Graph small(int64_t size) {
  Graph g;
  g.name = "small";
  const TensorType type{DType::f32, {size}, {}};
  const ValueId x = g.add_input("x", type);
  const ValueId k = g.add_constant("k", Tensor::of<float>({1}, {2}));
  const NodeId relu = g.add_node(find_op("", "Relu", 17), "relu", 17, {}, {x}, {type}, {"r"});
  const NodeId add = g.add_node(find_op("", "Add", 17), "add", 17, {}, {g.node(relu).outputs[0], k}, {type}, {"s"});
  g.add_output(g.node(add).outputs[0], "y");
  return g;
}

TEST(Unite, DuplicateNamesGetTheLabel) {
  const std::vector<LabelledGraph> parts{{"4", small(4)}, {"8", small(8)}};
  const UnitedGraph all = unite(parts);
  verify(all.graph);
  EXPECT_EQ(print(all.graph),
            "graph \"\" {\n"
            "  input %x: f32[4]\n"
            "  input %\"x@8\": f32[8]\n"
            "  const %k: f32[1](2)\n"
            "  const %\"k@8\": f32[1](2)\n"
            "  %r: f32[4] = Relu@17 \"relu\"(%x)\n"
            "  %s: f32[4] = Add@17 \"add\"(%r, %k)\n"
            "  %\"r@8\": f32[8] = Relu@17 \"relu@8\"(%\"x@8\")\n"
            "  %\"s@8\": f32[8] = Add@17 \"add@8\"(%\"r@8\", %\"k@8\")\n"
            "  output \"y\" %s\n"
            "  output \"y@8\" %\"s@8\"\n"
            "}\n");
  ASSERT_EQ(all.names.size(), 2U);
  EXPECT_EQ(all.names[0].at("relu"), "relu");
  EXPECT_EQ(all.names[1].at("relu"), "relu@8");
  EXPECT_EQ(all.names[1].at("x"), "x@8") << "values, too";
}

TEST(Unite, NodeAndValueOfTheSameNameBothGetTheLabel) {
  Graph first = small(4), second = small(8);
  first.rename_node(first.order().front(), "s2");
  second.rename(second.outputs()[0].value, "s2");
  const std::vector<LabelledGraph> parts{{"4", first}, {"8", second}};
  EXPECT_EQ(unite(parts).names[1].at("s2"), "s2@8");
}

TEST(Unite, ConstantsShareMemory) {
  const std::vector<LabelledGraph> parts{{"4", small(4)}};
  const UnitedGraph all = unite(parts);
  const auto memory = [](const Graph& g) { return g.value(g.find_value("k")).constant->raw(); };
  EXPECT_EQ(memory(all.graph), memory(parts[0].graph));
}

}  // namespace
}  // namespace kilter
