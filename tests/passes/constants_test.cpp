// fold_constants, common_subexpressions and dead_code.
#include <gtest/gtest.h>

#include "ops/support/builder.h"
#include "pass_runner.h"

namespace kilter {
namespace {

TEST(FoldConstants, ChainsOfConstantsBecomeOne) {
  const std::string_view text = R"(graph "g" {
    input %x: f32[2]
    const %k: f32[2](2, 3)
    %a: f32[2] = Mul@14 "a"(%k, %k)
    %b: f32[2] = Add@14 "b"(%a, %k)
    %c: f32[2] = Add@14 "c"(%x, %b)
    output "c" %c
    output "b" %b
  })";
  EXPECT_EQ(after(fold_constants, text),
            "%c: f32[2] = Add@14 \"c\"(%x, %b_1)\n"
            "output \"c\" %c\n"
            "output \"b\" %b_1\n");
  Graph graph = parse_graph(text);
  run_pass(fold_constants, graph);
  const auto& folded = graph.value(graph.find_value("b_1")).constant;
  ASSERT_TRUE(folded);
  EXPECT_TRUE(folded->same(Tensor::of<float>({2}, {6, 12})));
}

TEST(FoldConstants, EveryWantedOutputIsFolded) {
  EXPECT_EQ(after(fold_constants, R"(graph "g" {
    const %k: f32[4](4, 2, 3, 1)
    const %two: i64[1](2)
    %v: f32[2], %i: i64[2] = TopK@11 "top"(%k, %two)
    output "values" %v
    output "indices" %i
  })"),
            "output \"values\" %v_1\n"
            "output \"indices\" %i_1\n");
}

TEST(FoldConstants, HugeOrRandomResultsAreNotFolded) {
  EXPECT_EQ(unchanged(fold_constants, R"(graph "g" {
    input %x: f32[2]
    const %big: i64[2](2048, 1024)
    const %one: f32[](1)
    %a: f32[2048,1024] = Expand@13 "a"(%one, %big)
    %b: f32[3] = RandomNormal@1 "b" {shape=[3]}()
    %c: f32[2] = Relu@14 "c"(%x)
    output "a" %a
    output "b" %b
    output "c" %c
  })"),
            "");
}

/// A chain of Concats, each of which doubles the length: the last value is 2^count times as long as the first.
Graph doubled(int64_t elems, int count) {
  Graph graph;
  GraphBuilder b(graph);
  b.fold_limit = -1;
  ValueId v = b.constant(Tensor(DType::f32, {elems}));
  for (int i = 0; i < count; ++i) {
    const ValueId other = b.add("Neg", {v});
    v = b.add("Concat", {v, other}, {{"axis", int64_t{0}}});
  }
  graph.add_output(v, "y");
  return graph;
}

int64_t constant_bytes(const Graph& graph) {
  int64_t bytes = 0;
  for (ValueId v = 0; v < static_cast<ValueId>(graph.value_count()); ++v) {
    if (const auto& constant = graph.value(v).constant) bytes += constant->bytes();
  }
  return bytes;
}

TEST(FoldConstants, FoldingHasAByteBudget) {
  Graph graph = doubled(1000, 24);  // 64 GB at the end
  run_pass(fold_constants, graph);
  EXPECT_LT(constant_bytes(graph), int64_t{600} << 20);
  EXPECT_GT(graph.order().size(), 4U);
  EXPECT_LT(graph.order().size(), 30U);
}

TEST(FoldConstants, FoldingHasAWorkBudget) {
  Graph graph;
  GraphBuilder b(graph);
  b.fold_limit = -1;
  const ValueId x = b.constant(Tensor(DType::f32, {1, 1, 4, 4})),
                w = b.constant(Tensor(DType::f32, {1, 1, 3000, 3000}));
  graph.add_output(b.add("ConvTranspose", {x, w}, {{"strides", std::vector<int64_t>{2000, 2000}}}), "y");
  graph.add_output(
      b.add("MatMul", {b.constant(Tensor(DType::f32, {3000, 3000})), b.constant(Tensor(DType::f32, {3000, 3000}))}),
      "z");
  graph.add_output(
      b.add("MatMul", {b.constant(Tensor(DType::f32, {30, 30})), b.constant(Tensor(DType::f32, {30, 30}))}), "small");
  run_pass(fold_constants, graph);
  ASSERT_EQ(graph.order().size(), 2U);
  EXPECT_EQ(graph.node(graph.order()[0]).op->name, "ConvTranspose");
  EXPECT_EQ(graph.node(graph.order()[1]).op->name, "MatMul");
}

TEST(FoldConstants, OperandsOfFoldedNodesAreReleased) {
  Graph graph;
  GraphBuilder b(graph);
  b.fold_limit = -1;
  ValueId v = b.constant(Tensor(DType::f32, {8 << 20}));
  for (int i = 0; i < 12; ++i) v = b.add("Neg", {v});
  graph.add_output(v, "y");
  run_pass(fold_constants, graph);
  EXPECT_TRUE(graph.order().empty());
  EXPECT_EQ(constant_bytes(graph), int64_t{32} << 20);
}

TEST(CommonSubexpressions, EqualNodesAreMergedThroughChains) {
  EXPECT_EQ(after(common_subexpressions, R"(graph "g" {
    input %x: f32[2,3]
    const %k: f32[](2)
    %a: f32[2,3] = Exp@13 "a"(%x)
    %b: f32[2,3] = Exp@13 "b"(%x)
    %c: f32[2,3] = Mul@14 "c"(%a, %k)
    %d: f32[2,3] = Mul@14 "d"(%b, %k)
    %e: f32[2,3] = Add@14 "e"(%c, %d)
    output "e" %e
  })"),
            "%a: f32[2,3] = Exp@13 \"a\"(%x)\n"
            "%c: f32[2,3] = Mul@14 \"c\"(%a, %k)\n"
            "%e: f32[2,3] = Add@14 \"e\"(%c, %c)\n"
            "output \"e\" %e\n");
}

TEST(CommonSubexpressions, ConstantsWithEqualBytesAreEqualOperands) {
  EXPECT_EQ(after(common_subexpressions, R"(graph "g" {
    input %x: f32[2]
    const %k: f32[2](2, 3)
    const %l: f32[2](2, 3)
    const %m: f32[2](2, 4)
    const %n: f32[1,2](2, 3)
    const %z: f32[](0)
    const %y: f32[](-0)
    %a: f32[2] = Mul@14 "a"(%x, %k)
    %b: f32[2] = Mul@14 "b"(%x, %l)
    %c: f32[2] = Mul@14 "c"(%x, %m)
    %d: f32[1,2] = Mul@14 "d"(%x, %n)
    %e: f32[2] = Mul@14 "e"(%x, %z)
    %f: f32[2] = Mul@14 "f"(%x, %y)
    %s: f32[1,2] = Sum@13 "s"(%a, %b, %c, %d, %e, %f)
    output "s" %s
  })"),
            "%a: f32[2] = Mul@14 \"a\"(%x, %k)\n"
            "%c: f32[2] = Mul@14 \"c\"(%x, %m)\n"
            "%d: f32[1,2] = Mul@14 \"d\"(%x, %n)\n"
            "%e: f32[2] = Mul@14 \"e\"(%x, %z)\n"
            "%f: f32[2] = Mul@14 \"f\"(%x, %y)\n"
            "%s: f32[1,2] = Sum@13 \"s\"(%a, %a, %c, %d, %e, %f)\n"
            "output \"s\" %s\n");
}

/// x * k + x * l of 2^16 elements. `k` and `l` differ in element `other`, unless it is negative.
int64_t merged_products(int64_t other) {
  constexpr int64_t kElems = 1 << 16;
  Graph graph;
  const TensorType type{DType::f32, {kElems}, {}};
  const ValueId x = graph.add_input("x", type);
  Tensor k(DType::f32, {kElems}), l(DType::f32, {kElems});
  if (other >= 0) l.data<float>()[other] = 1;
  GraphBuilder b(graph);
  const ValueId first = b.add("Mul", {x, graph.add_constant("k", k)}, {}, "a");
  const ValueId second = b.add("Mul", {x, graph.add_constant("l", l)}, {}, "b");
  graph.add_output(b.add("Add", {first, second}, {}, "c"), "y");
  return run_pass(common_subexpressions, graph);
}

TEST(CommonSubexpressions, LargeConstantsAreComparedCompletely) {
  EXPECT_EQ(merged_products(-1), 1);
  for (const int64_t other : {0, 1000, 32768, 40000, 65535}) EXPECT_EQ(merged_products(other), 0) << other;
}

TEST(CommonSubexpressions, RepeatedLayerIsFoldedOnce) {
  Graph graph = parse_graph(R"(graph "g" {
    input %x: f32[1,1,4,4]
    const %w: f32[2,1,1,1](1, 2)
    const %s: f32[2,1,1](2, 3)
    const %t: f32[2,1,1](2, 3)
    %c: f32[1,2,4,4] = Conv@11 "c"(%x, %w)
    %d: f32[1,2,4,4] = Mul@14 "d"(%c, %s)
    %e: f32[1,2,4,4] = Mul@14 "e"(%c, %t)
    %f: f32[1,2,4,4] = Exp@13 "f"(%d)
    %g: f32[1,2,4,4] = Exp@13 "g"(%e)
    %h: f32[1,2,4,4] = Add@14 "h"(%f, %g)
    output "h" %h
  })");
  EXPECT_EQ(run_pass(common_subexpressions, graph), 2);
  EXPECT_EQ(run_pass(fold_batch_norm, graph), 1);
  EXPECT_EQ(nodes_text(graph),
            "%d: f32[1,2,4,4] = Conv@11 \"c\"(%x, %w_1, %c.bias)\n"
            "%f: f32[1,2,4,4] = Exp@13 \"f\"(%d)\n"
            "%h: f32[1,2,4,4] = Add@14 \"h\"(%f, %f)\n"
            "output \"h\" %h\n");
}

TEST(CommonSubexpressions, DifferentNodesAreNotMerged) {
  EXPECT_EQ(unchanged(common_subexpressions, R"(graph "g" {
    input %x: f32[2,3]
    input %y: f32[2,3]
    const %axes: i64[1](1)
    %a: f32[2,3] = LeakyRelu@16 "a" {alpha=0.5}(%x)
    %b: f32[2,3] = LeakyRelu@16 "b" {alpha=0.25}(%x)
    %c: f32[2,3] = LeakyRelu@16 "c"(%x)
    %d: f32[2,3] = LeakyRelu@6 "d" {alpha=0.5}(%x)
    %e: f32[2,3] = Sub@14 "e"(%x, %y)
    %f: f32[2,3] = Sub@14 "f"(%y, %x)
    %g: f32[2,1] = ReduceMean@18 "g"(%x, %axes)
    %h: f32[2] = ReduceMean@18 "h" {keepdims=0}(%x, %axes)
    %i: f32[2,3] = Sum@13 "i"(%a, %b, %c, %d, %e, %f, %g)
    output "i" %i
    output "h" %h
  })"),
            "");
}

TEST(CommonSubexpressions, RandomNodesAndOutputsAreNotMerged) {
  EXPECT_EQ(unchanged(common_subexpressions, R"(graph "g" {
    input %x: f32[2]
    %a: f32[3] = RandomNormal@1 "a" {shape=[3]}()
    %b: f32[3] = RandomNormal@1 "b" {shape=[3]}()
    %c: f32[3] = Sub@14 "c"(%a, %b)
    %d: f32[2] = Exp@13 "d"(%x)
    %e: f32[2] = Exp@13 "e"(%x)
    output "c" %c
    output "d" %d
    output "e" %e
  })"),
            "");
}

TEST(DeadCode, UnusedNodesAreRemoved) {
  EXPECT_EQ(after(dead_code, R"(graph "g" {
    input %x: f32[2,3]
    const %k: f32[](2)
    %a: f32[2,3] = Relu@14 "a"(%x)
    %b: f32[2,3] = Exp@13 "b"(%a)
    %c: f32[2,3] = Mul@14 "c"(%b, %k)
    %d: f32[2,3] = Neg@13 "d"(%a)
    output "d" %d
  })"),
            "%a: f32[2,3] = Relu@14 \"a\"(%x)\n"
            "%d: f32[2,3] = Neg@13 \"d\"(%a)\n"
            "output \"d\" %d\n");
}

TEST(DeadCode, InputsAndPartlyUsedNodesAreKept) {
  EXPECT_EQ(unchanged(dead_code, R"(graph "g" {
    input %x: f32[4]
    input %unused: f32[1]
    const %two: i64[1](2)
    %v: f32[2], %i: i64[2] = TopK@11 "top"(%x, %two)
    output "indices" %i
  })"),
            "");
}

}  // namespace
}  // namespace kilter
