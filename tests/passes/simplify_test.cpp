#include <gtest/gtest.h>

#include "ops/support/evaluate.h"
#include "pass_runner.h"

namespace kilter {
namespace {

TEST(Simplify, NoOpNodesAreRemoved) {
  EXPECT_EQ(after(simplify, R"(graph "g" {
    input %x: f32[2,3]
    const %one: f32[](1)
    const %zero: f32[1](0)
    const %shape: i64[2](2, 3)
    const %reps: i64[2](1, 1)
    const %from: i64[1](0)
    const %to: i64[1](3)
    const %axis: i64[1](1)
    %a: f32[2,3] = Relu@14 "a"(%x)
    %b: f32[2,3] = Identity@16 "b"(%a)
    %c: f32[2,3] = Mul@14 "c"(%one, %b)
    %d: f32[2,3] = Add@14 "d"(%c, %zero)
    %e: f32[2,3] = Sub@14 "e"(%d, %zero)
    %f: f32[2,3] = Div@14 "f"(%e, %one)
    %g: f32[2,3] = Reshape@14 "g"(%f, %shape)
    %h: f32[2,3] = Expand@13 "h"(%g, %shape)
    %i: f32[2,3] = Tile@13 "i"(%h, %reps)
    %j: f32[2,3] = Cast@13 "j" {to=1}(%i)
    %k: f32[2,3] = Slice@13 "k"(%j, %from, %to, %axis)
    %l: f32[2,3] = Concat@13 "l" {axis=0}(%k)
    %m: f32[2,3] = Transpose@13 "m" {perm=[0, 1]}(%l)
    %n: f32[2,3] = Exp@13 "n"(%m)
    output "n" %n
  })"),
            "%a: f32[2,3] = Relu@14 \"a\"(%x)\n"
            "%n: f32[2,3] = Exp@13 \"n\"(%a)\n"
            "output \"n\" %n\n");
}

TEST(Simplify, MovementsAreMerged) {
  EXPECT_EQ(after(simplify, R"(graph "g" {
    input %x: f32[2,3,4]
    const %s1: i64[2](6, 4)
    const %s2: i64[3](4, 2, 3)
    %a: f32[6,4] = Reshape@14 "a"(%x, %s1)
    %b: f32[4,2,3] = Reshape@14 "b"(%a, %s2)
    %c: f32[2,3,4] = Transpose@13 "c" {perm=[1, 2, 0]}(%b)
    %d: f32[3,4,2] = Transpose@13 "d" {perm=[1, 2, 0]}(%c)
    %e: f32[3,4,2] = Exp@13 "e"(%d)
    output "e" %e
    output "a" %a
  })"),
            "%a: f32[6,4] = Reshape@14 \"a\"(%x, %s1)\n"
            "%b_1: f32[4,2,3] = Reshape@28 \"b_1\" {allowzero=1}(%x, %const)\n"
            "%d_1: f32[3,4,2] = Transpose@28 \"d_1\" {perm=[2, 0, 1]}(%b_1)\n"
            "%e: f32[3,4,2] = Exp@13 \"e\"(%d_1)\n"
            "output \"e\" %e\n"
            "output \"a\" %a\n");
}

TEST(Simplify, InverseTransposesCancel) {
  EXPECT_EQ(after(simplify, R"(graph "g" {
    input %x: f32[2,3,4]
    %a: f32[4,2,3] = Transpose@13 "a" {perm=[2, 0, 1]}(%x)
    %b: f32[2,3,4] = Transpose@13 "b" {perm=[1, 2, 0]}(%a)
    %c: f32[2,3,4] = Exp@13 "c"(%b)
    output "c" %c
  })"),
            "%c: f32[2,3,4] = Exp@13 \"c\"(%x)\n"
            "output \"c\" %c\n");
}

TEST(Simplify, TransposesWithoutPermutationReverse) {
  EXPECT_EQ(after(simplify, R"(graph "g" {
    input %x: f32[2,3,4]
    input %v: f32[5]
    %a: f32[4,3,2] = Transpose@13 "a"(%x)
    %b: f32[3,2,4] = Transpose@13 "b" {perm=[1, 2, 0]}(%a)
    %c: f32[3,2,4] = Exp@13 "c"(%b)
    %d: f32[5] = Transpose@13 "d"(%v)
    %e: f32[5] = Exp@13 "e"(%d)
    output "c" %c
    output "e" %e
  })"),
            "%b_1: f32[3,2,4] = Transpose@28 \"b_1\" {perm=[1, 0, 2]}(%x)\n"
            "%c: f32[3,2,4] = Exp@13 \"c\"(%b_1)\n"
            "%e: f32[5] = Exp@13 \"e\"(%v)\n"
            "output \"c\" %c\n"
            "output \"e\" %e\n");
}

TEST(Simplify, SquareBecomesAProduct) {
  EXPECT_EQ(after(simplify, R"(graph "g" {
    input %x: f32[2]
    const %two: i64[1](2)
    %a: f32[2] = Pow@15 "a"(%x, %two)
    output "a" %a
  })"),
            "%a_1: f32[2] = Mul@28 \"a_1\"(%x, %x)\n"
            "output \"a\" %a_1\n");
}

TEST(Simplify, NodesThatChangeShapeTypeOrOrderAreKept) {
  EXPECT_EQ(unchanged(simplify, R"(graph "g" {
    input %x: f32[2,1]
    input %y: f32[2,3]
    const %one: f32[1,3](1, 1, 1)
    const %ones: f32[1](1)
    const %three: f32[](3)
    const %first: i64[1](-1)
    const %last: i64[1](-100)
    const %axis: i64[1](1)
    const %back: i64[1](-1)
    const %wide: i64[2](2, 3)
    %a: f32[2,3] = Mul@14 "a"(%x, %one)
    %b: f32[2,3] = Slice@13 "b"(%y, %first, %last, %axis, %back)
    %c: f32[2,3] = Expand@13 "c"(%x, %wide)
    %d: f16[2,3] = Cast@13 "d" {to=10}(%y)
    %e: f32[2,3] = Pow@15 "e"(%y, %three)
    %f: f32[2,3] = Sub@14 "f"(%ones, %y)
    %g: f32[2,3] = Div@14 "g"(%ones, %y)
    %h: f32[3,2] = Transpose@13 "h"(%y)
    output "a" %a
    output "b" %b
    output "c" %c
    output "d" %d
    output "e" %e
    output "f" %f
    output "g" %g
    output "h" %h
  })"),
            "");
}

TEST(Simplify, OutputsKeepTheirOwnNodes) {
  // Copies are needed for an output that equals an input, and for a second output with the same value.
  EXPECT_EQ(unchanged(simplify, R"(graph "g" {
    input %x: f32[2]
    %a: f32[2] = Identity@16 "a"(%x)
    %b: f32[2] = Relu@14 "b"(%x)
    %c: f32[2] = Identity@16 "c"(%b)
    output "a" %a
    output "b" %b
    output "c" %c
  })"),
            "");
  EXPECT_EQ(after(simplify, R"(graph "g" {
    input %x: f32[2]
    %b: f32[2] = Relu@14 "b"(%x)
    %c: f32[2] = Identity@16 "c"(%b)
    output "c" %c
  })"),
            "%b: f32[2] = Relu@14 \"b\"(%x)\n"
            "output \"c\" %b\n");
}

TEST(Simplify, RunTimeScalesAreKept) {
  EXPECT_EQ(unchanged(simplify, R"(graph "g" {
    input %x: f32[2]
    input %one: f32[]
    %a: f32[2] = Mul@14 "a"(%x, %one)
    output "a" %a
  })"),
            "");
}

TEST(Simplify, ConcatOfAllSplitPartsIsTheInput) {
  const auto with = [](std::string_view joined) {
    return fmt::format(R"(graph "g" {{
    input %x: f32[2,6]
    input %y: f32[2,3]
    %a: f32[2,3], %b: f32[2,3] = Split@18 "s" {{axis=-1, num_outputs=2}}(%x)
    %c: {}
    output "c" %c
  }})",
                       joined);
  };
  EXPECT_EQ(after(simplify, with("f32[2,9] = Concat@13 \"c\" {axis=1}(%a, %b, %y)")),
            "%c_1: f32[2,9] = Concat@28 \"c_1\" {axis=1}(%x, %y)\noutput \"c\" %c_1\n");
  EXPECT_EQ(after(simplify, with("f32[2,12] = Concat@13 \"c\" {axis=-1}(%y, %a, %b, %a)")),
            "%a: f32[2,3], %b: f32[2,3] = Split@18 \"s\" {axis=-1, num_outputs=2}(%x)\n"
            "%c_1: f32[2,12] = Concat@28 \"c_1\" {axis=1}(%y, %x, %a)\noutput \"c\" %c_1\n");
  for (const std::string_view other :
       {"f32[2,6] = Concat@13 \"c\" {axis=1}(%b, %a)", "f32[4,3] = Concat@13 \"c\" {axis=0}(%a, %b)",
        "f32[2,6] = Concat@13 \"c\" {axis=1}(%y, %a)"}) {
    EXPECT_EQ(unchanged(simplify, with(other)), "") << other;
  }
}

constexpr std::string_view kScatter = R"(graph "g" {
    input %x: f32[5,2,3]
    input %u: f32[4,2,3]
    const %i: i64[4,1,1](3, 0, -1, 3)
    const %shape: i64[3](4, 2, 3)
    %all: i64[4,2,3] = Expand@13 "all"(%i, %shape)
    %y: f32[5,2,3] = ScatterElements@18 "y"(%x, %all, %u)
    output "y" %y
  })";
constexpr std::string_view kGather = R"(graph "g" {
    input %x: f32[2,5,3]
    const %i: i64[4,1](3, 0, -5, 3)
    const %shape: i64[3](2, 4, 3)
    %all: i64[2,4,3] = Expand@13 "all"(%i, %shape)
    %y: f32[2,4,3] = GatherElements@13 "y" {axis=1}(%x, %all)
    output "y" %y
  })";

TEST(Simplify, ExpandedIndicesBecomeSliceMoves) {
  EXPECT_EQ(after(simplify, kScatter),
            "%y_1: f32[5,2,3] = ScatterND@28 \"y_1\" {reduction=\"none\"}(%x, %y.rows, %u)\n"
            "output \"y\" %y_1\n");
  EXPECT_EQ(after(simplify, with(std::string(kScatter), "\"y\"(%x", "\"y\" {reduction=\"mul\"}(%x")),
            "%y_1: f32[5,2,3] = ScatterND@28 \"y_1\" {reduction=\"mul\"}(%x, %y.rows, %u)\n"
            "output \"y\" %y_1\n");
  EXPECT_EQ(after(simplify, kGather),
            "%y_1: f32[2,4,3] = Gather@28 \"y_1\" {axis=1}(%x, %y.slices)\n"
            "output \"y\" %y_1\n");
}

TEST(Simplify, ExpandedIndicesKeepTheResults) {
  for (const std::string_view text : {kScatter, kGather}) {
    Graph graph = parse_graph(text);
    std::vector<Tensor> inputs;
    for (const ValueId v : graph.inputs()) {
      Tensor& t = inputs.emplace_back(DType::f32, graph.type(v).shape);
      for (int64_t i = 0; i < t.elems(); ++i) t.data<float>()[i] = static_cast<float>(100 * v + i);
    }
    const Tensor want = evaluate(graph, inputs).at(0);
    EXPECT_EQ(run_pass(simplify, graph), 1);
    EXPECT_EQ(compare(evaluate(graph, inputs).at(0), want, {}).value_or(""), "");
  }
}

TEST(Simplify, OtherExpandedIndicesAreUnchanged) {
  const std::string scatter(kScatter), gather(kGather);
  EXPECT_EQ(unchanged(simplify, with(scatter, "\"y\"(%x", "\"y\" {axis=1}(%x")), "") << "another axis";
  const std::string wider = with(with(scatter, "%x: f32[5,2,3]", "%x: f32[5,2,4]"), "%y: f32[5,2,3]", "%y: f32[5,2,4]");
  EXPECT_EQ(unchanged(simplify, wider), "") << "the updates are parts of rows";
  EXPECT_EQ(unchanged(simplify, with(with(gather, "i64[4,1](3, 0, -5, 3)", "i64[3](3, 0, -1)"), "axis=1", "axis=0")),
            "")
      << "the indices vary along another axis";
}

}  // namespace
}  // namespace kilter
