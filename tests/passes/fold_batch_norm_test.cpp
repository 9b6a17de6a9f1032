#include <gtest/gtest.h>

#include "pass_runner.h"

namespace kilter {
namespace {

const Tensor& constant(const Graph& graph, std::string_view name) {
  return *graph.value(graph.find_value(name)).constant;
}

TEST(FoldBatchNorm, ScalesAndShiftsAreFoldedInAnyOrderAndShape) {
  const std::string_view text = R"(graph "g" {
    input %x: f32[1,2,4,4]
    const %w: f32[2,2,1,1](1, 2, 3, 4)
    const %b: f32[2](1, -1)
    const %s: f32[2,1,1](2, 0.5)
    const %t: f32[1,2,1,1](3, 5)
    const %u: f32[](1)
    const %k: f32[1](2)
    %c: f32[1,2,4,4] = Conv@11 "c"(%x, %w, %b)
    %d: f32[1,2,4,4] = Mul@14 "d"(%s, %c)
    %e: f32[1,2,4,4] = Add@14 "e"(%d, %t)
    %f: f32[1,2,4,4] = Sub@14 "f"(%e, %u)
    %g: f32[1,2,4,4] = Div@14 "g"(%f, %k)
    %h: f32[1,2,4,4] = Relu@14 "h"(%g)
    output "h" %h
  })";
  EXPECT_EQ(after(fold_batch_norm, text),
            "%g: f32[1,2,4,4] = Conv@11 \"c\"(%x, %w_1_1, %c.bias_3)\n"
            "%h: f32[1,2,4,4] = Relu@14 \"h\"(%g)\n"
            "output \"h\" %h\n");
  Graph graph = parse_graph(text);
  EXPECT_EQ(run_pass(fold_batch_norm, graph), 4);
  EXPECT_TRUE(constant(graph, "w_1_1").same(Tensor::of<float>({2, 2, 1, 1}, {1, 2, 0.75F, 1})));
  EXPECT_TRUE(constant(graph, "c.bias_3").same(Tensor::of<float>({2}, {2, 1.75F})));
}

TEST(FoldBatchNorm, AConvolutionWithoutBiasGetsOne) {
  const std::string_view text = R"(graph "g" {
    input %x: f32[1,1,4]
    const %w: f32[2,1,1](1, 2)
    const %t: f32[2,1](3, 5)
    %c: f32[1,2,4] = Conv@11 "c"(%x, %w)
    %d: f32[1,2,4] = Add@14 "d"(%c, %t)
    output "d" %d
  })";
  EXPECT_EQ(after(fold_batch_norm, text),
            "%d: f32[1,2,4] = Conv@11 \"c\"(%x, %w, %c.bias)\n"
            "output \"d\" %d\n");
}

TEST(FoldBatchNorm, ATransposedConvolutionScalesItsSecondAxis) {
  const std::string_view text = R"(graph "g" {
    input %x: f32[1,2,3,3]
    const %w: f32[2,3,1,1](1, 2, 3, 4, 5, 6)
    const %s: f32[3,1,1](2, 10, 0.5)
    %c: f32[1,3,3,3] = ConvTranspose@11 "c"(%x, %w)
    %d: f32[1,3,3,3] = Mul@14 "d"(%c, %s)
    output "d" %d
  })";
  after(fold_batch_norm, text);
  Graph graph = parse_graph(text);
  EXPECT_EQ(run_pass(fold_batch_norm, graph), 1);
  EXPECT_TRUE(constant(graph, "w_1").same(Tensor::of<float>({2, 3, 1, 1}, {2, 20, 1.5F, 8, 50, 3})));
}

TEST(FoldBatchNorm, SharedWeightsAreFoldedForOneReaderOnly) {
  const std::string_view text = R"(graph "g" {
    input %x: f32[1,1,2,2]
    const %w: f32[1,1,1,1](3)
    const %s: f32[](2)
    %a: f32[1,1,2,2] = Conv@11 "a"(%x, %w)
    %b: f32[1,1,2,2] = Mul@14 "b"(%a, %s)
    %c: f32[1,1,2,2] = Conv@11 "c"(%b, %w)
    output "c" %c
  })";
  EXPECT_EQ(after(fold_batch_norm, text),
            "%b: f32[1,1,2,2] = Conv@11 \"a\"(%x, %w_1, %a.bias)\n"
            "%c: f32[1,1,2,2] = Conv@11 \"c\"(%b, %w)\n"
            "output \"c\" %c\n");
}

TEST(FoldBatchNorm, SharedVaryingAndRunTimeValuesAreUnchanged) {
  EXPECT_EQ(unchanged(fold_batch_norm, R"(graph "g" {
    input %x: f32[1,2,2,2]
    input %scale: f32[2,1,1]
    input %v: f32[2,2,1,1]
    const %w: f32[2,2,1,1](1, 2, 3, 4)
    const %s: f32[2,1,1](2, 3)
    const %pixels: f32[2,2](1, 2, 3, 4)
    const %columns: f32[2](1, 2)
    const %wide: f32[2,2,1,1](1, 2, 3, 4)
    %a: f32[1,2,2,2] = Conv@11 "a"(%x, %w)
    %twice: f32[1,2,2,2] = Mul@14 "twice"(%a, %s)
    %other: f32[1,2,2,2] = Relu@14 "other"(%a)
    %b: f32[1,2,2,2] = Conv@11 "b"(%twice, %w)
    %answer: f32[1,2,2,2] = Mul@14 "answer"(%b, %s)
    %c: f32[1,2,2,2] = Conv@11 "c"(%x, %w)
    %runtime: f32[1,2,2,2] = Mul@14 "runtime"(%c, %scale)
    %d: f32[1,2,2,2] = Conv@11 "d"(%x, %w)
    %image: f32[1,2,2,2] = Add@14 "image"(%d, %pixels)
    %e: f32[1,2,2,2] = Conv@11 "e"(%x, %w)
    %column: f32[1,2,2,2] = Mul@14 "column"(%e, %columns)
    %f: f32[1,2,2,2] = Conv@11 "f"(%x, %w)
    %inverse: f32[1,2,2,2] = Div@14 "inverse"(%s, %f)
    %g: f32[1,2,2,2] = Conv@11 "g"(%x, %w)
    %batched: f32[2,2,2,2] = Mul@14 "batched"(%g, %wide)
    %h: f32[1,2,2,2] = Conv@11 "h"(%x, %v)
    %weights: f32[1,2,2,2] = Mul@14 "weights"(%h, %s)
    %i: f32[1,2,2,2] = Conv@11 "i"(%x, %w)
    %square: f32[1,2,2,2] = Mul@14 "square"(%i, %i)
    output "other" %other
    output "b" %b
    output "answer" %answer
    output "runtime" %runtime
    output "image" %image
    output "column" %column
    output "inverse" %inverse
    output "batched" %batched
    output "weights" %weights
    output "square" %square
  })"),
            "");
}

TEST(FoldBatchNorm, NonFiniteFactorsAreNotFolded) {
  // If they were folded into the weights, they would be combined with zeros and each other in the convolution's sum.
  EXPECT_EQ(unchanged(fold_batch_norm, R"(graph "g" {
    input %x: f32[1,1,2,2]
    const %w: f32[1,1,1,1](3)
    const %zero: f32[](0)
    const %inf: f32[](inf)
    %a: f32[1,1,2,2] = Conv@11 "a"(%x, %w)
    %b: f32[1,1,2,2] = Div@14 "b"(%a, %zero)
    %c: f32[1,1,2,2] = Conv@11 "c"(%b, %w)
    %d: f32[1,1,2,2] = Mul@14 "d"(%c, %inf)
    output "d" %d
  })"),
            "");
}

TEST(FoldBatchNorm, ConvolutionWithoutFiltersIsUnchanged) {
  EXPECT_EQ(unchanged(fold_batch_norm, R"(graph "g" {
    input %x: f32[1,1,2,2]
    const %w: f32[0,1,1,1]()
    const %two: f32[](2)
    %a: f32[1,0,2,2] = Conv@11 "a"(%x, %w)
    %b: f32[1,0,2,2] = Mul@14 "b"(%a, %two)
    output "b" %b
  })"),
            "");
}

}  // namespace
}  // namespace kilter
