// decompose: the operators that replace operators for which no template exists.
#include <gtest/gtest.h>

#include "pass_runner.h"

namespace kilter {
namespace {

TEST(Decompose, LpPoolBecomesMeanOfPowers) {
  EXPECT_EQ(after(decompose, R"(graph "g" {
    input %x: f32[1,2,4,4]
    %y: f32[1,2,2,2] = LpPool@18 "y" {kernel_shape=[2, 2], strides=[2, 2]}(%x)
    output "y" %y
  })"),
            "%y.power: f32[1,2,4,4] = Mul@28 \"y.power\"(%x, %x)\n"
            "%y_1: f32[1,2,2,2] = AveragePool@28 \"y_1\" {count_include_pad=1, kernel_shape=[2, 2], strides=[2, "
            "2]}(%y.power)\n"
            "%y.sum: f32[1,2,2,2] = Mul@28 \"y.sum\"(%y_1, %const)\n"
            "%y: f32[1,2,2,2] = Sqrt@28 \"y.root\"(%y.sum)\n"
            "output \"y\" %y\n");
  EXPECT_EQ(after(decompose, R"(graph "g" {
    input %x: f32[1,2,4,4]
    %y: f32[1,2,1,1] = GlobalLpPool@2 "y" {p=1}(%x)
    output "y" %y
  })"),
            "%y.abs: f32[1,2,4,4] = Abs@28 \"y.abs\"(%x)\n"
            "%y: f32[1,2,1,1] = ReduceSum@28 \"y_1\"(%y.abs, %y.axes)\n"
            "output \"y\" %y\n");
}

TEST(Decompose, LpPoolWithPartialWindowsIsUnchanged) {
  EXPECT_EQ(unchanged(decompose, R"(graph "g" {
    input %x: f32[1,2,5,5]
    %y: f32[1,2,3,3] = LpPool@18 "y" {ceil_mode=1, kernel_shape=[2, 2], strides=[2, 2]}(%x)
    output "y" %y
  })"),
            "");
}

TEST(Decompose, LrnBecomesAConvolution) {
  Graph graph = parse_graph(R"(graph "g" {
    input %x: f32[1,4,3,3]
    %y: f32[1,4,3,3] = LRN@13 "y" {alpha=2.0, beta=0.5, bias=3.0, size=2}(%x)
    output "y" %y
  })");
  run_pass(decompose, graph);
  std::vector<std::string> ops;
  const Tensor* near = nullptr;
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    ops.emplace_back(node.op->name);
    if (node.op->name == "Conv") near = &*graph.value(node.inputs[1]).constant;
  }
  EXPECT_EQ(ops, (std::vector<std::string>{"Mul", "Conv", "Add", "Sqrt", "Div"}));
  // The window of size 2 covers the channel itself and the next one.
  const std::vector<double> wanted{1, 1, 0, 0, 0, 1, 1, 0, 0, 0, 1, 1, 0, 0, 0, 1};
  for (int64_t i = 0; i < near->elems(); ++i) EXPECT_EQ(near->as_double(i), wanted[static_cast<size_t>(i)]) << i;
}

TEST(Decompose, TriluBecomesWhereWithAConstantMask) {
  EXPECT_EQ(after(decompose, R"(graph "g" {
    input %x: f32[2,3]
    const %k: i64[](1)
    %y: f32[2,3] = Trilu@14 "y" {upper=0}(%x, %k)
    output "y" %y
  })"),
            "%y: f32[2,3] = Where@28 \"y_1\"(%y.mask, %x, %const)\n"
            "output \"y\" %y\n");
  EXPECT_EQ(unchanged(decompose, R"(graph "g" {
    input %x: f32[2,3]
    input %k: i64[]
    %y: f32[2,3] = Trilu@14 "y"(%x, %k)
    output "y" %y
  })"),
            "");
}

TEST(Decompose, OneHotBecomesWhere) {
  const std::string text = R"(graph "g" {
    input %i: i64[3]
    const %depth: i64[](4)
    const %values: f32[2](0, 1)
    %y: f32[3,4] = OneHot@11 "y"(%i, %depth, %values)
    output "y" %y
  })";
  Graph graph = parse_graph(text);
  run_pass(decompose, graph);
  std::vector<std::string> ops;
  for (const NodeId id : graph.order()) ops.emplace_back(graph.node(id).op->name);
  EXPECT_EQ(ops, (std::vector<std::string>{"Reshape", "Equal", "Equal", "Or", "Where"}));
  EXPECT_EQ(unchanged(decompose, with(text, "const %values: f32[2](0, 1)", "input %values: f32[2]")), "");
}

}  // namespace
}  // namespace kilter
