#include <gtest/gtest.h>

#include "ops/support/evaluate.h"
#include "pass_runner.h"

namespace kilter {
namespace {

/// A product whose weights are one column in a block of 16.
constexpr std::string_view kProduct = R"(graph "g" {
    input %x: f32[3,16]
    const %q: i8[16,1](1, -8, 2, 7, 3, 6, 4, 5, 5, 4, 6, 3, 7, 2, -8, 0)
    const %s: f32[1,1](0.5)
    %w: f32[16,1] = DequantizeLinear@21 "dq" {axis=0, block_size=16}(%q, %s)
    %y: f32[3,1] = MatMul@13 "product"(%x, %w)
    output "y" %y
  })";

/// kProduct with the weights as a row.
std::string turned() {
  const std::string text = with(with(std::string(kProduct), "i8[16,1]", "i8[1,16]"), "axis=0", "axis=1");
  return with(text, "%w: f32[16,1]", "%w: f32[1,16]");
}

/// Checks that the pass rewrites one product, and that the network's result does not change.
Graph same_answer(std::string_view text) {
  Graph graph = parse_graph(text);
  Tensor input(DType::f32, {3, 16});
  for (int64_t i = 0; i < input.elems(); ++i) input.data<float>()[i] = static_cast<float>(i * 7 % 11 - 5) / 4;
  const Tensor want = evaluate(graph, {input}).at(0);
  EXPECT_EQ(run_pass(block_weights, graph), 1);
  EXPECT_EQ(compare(evaluate(graph, {input}).at(0), want, {1e-5, 1e-6, true}), std::nullopt);
  return graph;
}

const Tensor& constant(const Graph& graph, std::string_view name) {
  return *graph.value(graph.find_value(name)).constant;
}

TEST(BlockWeights, IntegersOfFourBitsArePackedByColumn) {
  EXPECT_EQ(after(block_weights, kProduct),
            "%y: f32[3,1] = com.microsoft::MatMulNBits@1 \"product_1\" {K=16, N=1, bits=4, block_size=16}"
            "(%x, %product.weights, %product.scales)\n"
            "output \"y\" %y\n");
  const Graph graph = same_answer(kProduct);
  // Each integer is raised by 8; the first of two is in the lower half of a byte.
  EXPECT_TRUE(constant(graph, "product.weights")
                  .same(Tensor::of<uint8_t>({1, 1, 8}, {0x09, 0xfa, 0xeb, 0xdc, 0xcd, 0xbe, 0xaf, 0x80})));
  EXPECT_TRUE(constant(graph, "product.scales").same(Tensor::of<float>({1, 1}, {0.5})));
}

TEST(BlockWeights, LargerIntegersGetEightBits) {
  const Graph graph = same_answer(with(std::string(kProduct), "(1, -8,", "(1, -9,"));
  EXPECT_EQ(constant(graph, "product.weights").shape(), (Shape{1, 1, 16}));
  EXPECT_EQ(constant(graph, "product.weights").data<uint8_t>()[1], 119);
}

TEST(BlockWeights, UnsignedIntegersHaveZeroPoints) {
  const std::string text =
      with(with(with(std::string(kProduct), "(1, -8,", "(1, 9,"), "2, -8, 0", "2, 12, 0"), "i8", "u8");
  EXPECT_TRUE(constant(same_answer(text), "product.zeros").same(Tensor::of<uint8_t>({1, 1}, {0})));
  const std::string given =
      with(with(text, "(%q, %s)", "(%q, %s, %z)"), "const %s", "const %z: u8[1,1](3)\n    const %s");
  EXPECT_TRUE(constant(same_answer(given), "product.zeros").same(Tensor::of<uint8_t>({1, 1}, {3})));
}

TEST(BlockWeights, OtherAxisWithATranspose) {
  same_answer(with(turned(), "%y: f32[3,1] = MatMul@13 \"product\"(%x, %w)",
                   "%t: f32[16,1] = Transpose@13 \"t\" {perm=[1,0]}(%w)\n"
                   "    %y: f32[3,1] = MatMul@13 \"product\"(%x, %t)"));
}

TEST(BlockWeights, TheBiasOfAGemmIsAddedAfterwards) {
  const std::string gemm =
      with(with(turned(), "MatMul@13 \"product\"(%x, %w)", "Gemm@13 \"product\" {transB=1}(%x, %w, %c)"), "const %s",
           "input %c: f32[1]\n    const %s");
  EXPECT_EQ(after(block_weights, gemm),
            "%product_1: f32[3,1] = com.microsoft::MatMulNBits@1 \"product_1\" {K=16, N=1, bits=4, block_size=16}"
            "(%x, %product.weights, %product.scales)\n"
            "%y: f32[3,1] = Add@28 \"product.bias\"(%product_1, %c)\n"
            "output \"y\" %y\n");
}

TEST(BlockWeights, OtherWeightsAreUnchanged) {
  const std::string text(kProduct);
  const auto stays = [](const std::string& changed) { EXPECT_EQ(unchanged(block_weights, changed), ""); };
  stays(with(with(text, "block_size=16", "block_size=8"), "s: f32[1,1](0.5)", "s: f32[2,1](1, 2)"));
  stays(with(text, "block_size=16", "block_size=24"));
  stays(with(with(text, "axis=0", "axis=1"), "s: f32[1,1](0.5)",
             "s: f32[16,1](1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4)"));
  stays(with(text, "const %s: f32[1,1](0.5)", "input %s: f32[1,1]"));
  stays(with(text, "MatMul@13 \"product\"", "Gemm@13 \"product\" {alpha=2.0}"));
}

}  // namespace
}  // namespace kilter
