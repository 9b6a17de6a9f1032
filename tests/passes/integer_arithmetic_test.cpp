// Quantised layers as arithmetic on integers. All scales are powers of two, so that the reference kernels for floats
// have no rounding errors and results must stay equal.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "ops/support/builder.h"
#include "ops/support/evaluate.h"
#include "pass_runner.h"

namespace kilter {
namespace {

/// A network that reads quantised images %qx and %qr, or a quantised matrix %qa, with weights %w and %m, which are %v
/// and %n after a Dequantize. `nodes` may use %x, %r and %a, the dequantised values.
std::string network(std::string_view nodes) {
  return fmt::format(R"(graph "g" {{
    input %qx: u8[1,2,4,3]
    input %qr: i8[1,2,4,3]
    input %qa: u8[3,4]
    const %s: f32[](0.5)
    const %z: u8[](7)
    const %rs: f32[](0.125)
    const %rz: i8[](-3)
    const %w: i8[2,2,1,1](1, -2, 3, 100)
    const %ws: f32[](0.25)
    const %wz: i8[](0)
    const %m: i8[4,3](1, -2, 3, 100, 5, -6, 7, 8, -9, 10, 11, -128)
    const %ms: f32[1,3](0.25, 1, 2)
    const %ys: f32[](2)
    const %yz: u8[](3)
    const %bias: i32[2](5, -300)
    const %bs: f32[](0.125)
    const %half: f32[](0.5)
    const %six: f32[](6)
    const %axes: i64[2](2, 3)
    %x: f32[1,2,4,3] = kilter::Dequantize@1 "x" {{to=1}}(%qx, %s, %z)
    %r: f32[1,2,4,3] = kilter::Dequantize@1 "r" {{to=1}}(%qr, %rs, %rz)
    %a: f32[3,4] = kilter::Dequantize@1 "a" {{to=1}}(%qa, %s, %z)
    %v: f32[2,2,1,1] = kilter::Dequantize@1 "v" {{to=1}}(%w, %ws, %wz)
    %n: f32[4,3] = kilter::Dequantize@1 "n" {{to=1}}(%m, %ms)
    %b: f32[2] = kilter::Dequantize@1 "b" {{to=1}}(%bias, %bs)
    {}
  }})",
                     nodes);
}

constexpr std::string_view kConv = R"(%c: f32[1,2,4,3] = Conv@11 "c"(%x, %v, %b))";

/// The Quantize of %NAME to %q (u8), which is an output.
std::string rounded(std::string_view name, std::string_view shape) {
  return fmt::format(R"(%q: u8[{}] = kilter::Quantize@1 "q" {{precision=1, to=2}}(%{}, %ys, %yz) output "q" %q)", shape,
                     name);
}

/// A layer whose result %NAME is rounded.
std::string layer(std::string_view nodes, std::string_view name = "y", std::string_view shape = "1,2,4,3") {
  return network(fmt::format("{}\n{}", nodes, rounded(name, shape)));
}

std::vector<Tensor> random_inputs(const Graph& graph) {
  const Random random(17);
  std::vector<Tensor> inputs;
  for (ValueId v : graph.inputs()) {
    const TensorType& type = graph.type(v);
    Tensor tensor(type.dtype, type.shape);
    for (int64_t i = 0; i < tensor.elems(); ++i) {
      if (type.dtype == DType::f32)
        tensor.data<float>()[i] = 0.25F;
      else
        tensor.raw()[i] = static_cast<std::byte>(random.bits(static_cast<uint64_t>(i)) >> 56);
    }
    inputs.push_back(tensor);
  }
  return inputs;
}

std::vector<Tensor> results(const Graph& graph) { return evaluate(graph, random_inputs(graph)); }

/// The operators after the pass, in order. Checks that results are the same.
std::string operators(std::string_view text, const std::string& keep_float = "") {
  Graph graph = parse_graph(text);
  verify_types(graph);
  const std::vector<Tensor> want = results(graph);
  PassContext context;
  context.keep_float = {keep_float};
  integer_arithmetic(graph, context);
  verify(graph);
  verify_types(graph);
  const std::vector<Tensor> got = results(graph);
  for (size_t i = 0; i < want.size(); ++i) EXPECT_TRUE(got.at(i).same(want[i])) << "output " << i << print(graph);
  std::string out;
  for (NodeId id : graph.order()) out += (out.empty() ? "" : " ") + std::string(graph.node(id).op->name);
  return out;
}

TEST(IntegerArithmetic, AConvolutionRoundsItsExactSumOnce) {
  const std::string text = layer(fmt::format("{}\n%y: f32[1,2,4,3] = Relu@14 \"y\"(%c)", kConv));
  EXPECT_EQ(after(integer_arithmetic, text),
            "%qx_1: f32[1,2,4,3] = kilter::Dequantize@1 \"qx\" {to=1}(%qx, %one, %Cast)\n"
            "%c_1: i32[1,2,4,3] = kilter::IntegerConv@1 \"c_1\"(%qx_1, %v_1)\n"
            "%q_1: f32[1,2,4,3] = kilter::RoundedSum@1 \"q_1\" {high=252, low=0}(%c_1, %factor_2, %factor_3)\n"
            "%q_2: u8[1,2,4,3] = kilter::Quantize@1 \"q_2\" {precision=1, to=2}(%q_1, %one, %Cast_3)\n"
            "output \"q\" %q_2\n");
  EXPECT_EQ(operators(text), "Dequantize IntegerConv RoundedSum Quantize");
}

TEST(IntegerArithmetic, SumsAndClampsRoundOnce) {
  EXPECT_EQ(operators(layer(fmt::format("{}\n%y: f32[1,2,4,3] = Add@14 \"y\"(%r, %c)", kConv))),
            "Dequantize IntegerConv Dequantize RoundedSum Quantize");
  EXPECT_EQ(operators(layer(R"(%t: f32[1,2,4,3] = Add@14 "t"(%r, %x)
                               %u: f32[1,2,4,3] = Add@14 "u"(%t, %half)
                               %d: f32[1,2,4,3] = Mul@14 "d"(%half, %u)
                               %y: f32[1,2,4,3] = Clip@13 "y"(%d, _, %six))")),
            "Dequantize Dequantize RoundedSum Quantize");
}

TEST(IntegerArithmetic, ProductsHaveScalesPerColumnAndBiases) {
  const std::string want = "Dequantize IntegerMatMul RoundedSum Quantize";
  EXPECT_EQ(operators(layer(R"(%y: f32[3,3] = MatMul@13 "y"(%a, %n))", "y", "3,3")), want);
  const auto gemm = [](std::string_view bias, std::string_view attrs = "transB=0") {
    return layer(fmt::format(R"(const %c: f32{}
                                %y: f32[3,3] = Gemm@13 "y" {{{}}}(%a, %n, %c))",
                             bias, attrs),
                 "y", "3,3");
  };
  EXPECT_EQ(operators(gemm("[3](1, 2, 300)")), want);
  EXPECT_EQ(operators(gemm("[1,3](1, 2, 300)")), want);
  EXPECT_EQ(operators(gemm("[](-64)")), want);
  const std::string in_float = "Dequantize Dequantize Gemm Quantize";
  EXPECT_EQ(operators(gemm("[3,1](1, 2, 300)")), in_float) << "a bias per row";
  EXPECT_EQ(operators(gemm("[](4)", "alpha=0.5")), in_float);
  EXPECT_EQ(operators(gemm("[](4)", "beta=0.5")), in_float);
}

TEST(IntegerArithmetic, TransposedWeightsOfGemm) {
  const std::string turned = with(layer(R"(%y: f32[3,4] = Gemm@13 "y" {transB=1}(%t, %n))", "y", "3,4"), "%a: f32",
                                  "%t: f32[3,3] = kilter::Dequantize@1 \"t\" {to=1}(%qt, %s, %z)\n    %a: f32");
  const std::string text = with(turned, "input %qa", "input %qt: u8[3,3]\n    input %qa");
  EXPECT_EQ(operators(text), "Dequantize Dequantize Gemm Quantize") << "scales vary along the reduction";
  EXPECT_EQ(operators(with(text, "%ms: f32[1,3](0.25, 1, 2)", "%ms: f32[4,1](0.25, 1, 2, 0.5)")),
            "Dequantize IntegerMatMul RoundedSum Quantize");
}

TEST(IntegerArithmetic, LayersReadIntegersInsteadOfCodes) {
  const std::string two = network(fmt::format(
      R"({}
    %q1: u8[1,2,4,3] = kilter::Quantize@1 "q1" {{precision=1, to=2}}(%c, %ys, %yz)
    %x1: f32[1,2,4,3] = kilter::Dequantize@1 "x1" {{to=1}}(%q1, %ys, %yz)
    %y: f32[1,2,4,3] = Conv@11 "y"(%x1, %v)
    {})",
      kConv, rounded("y", "1,2,4,3")));
  const std::string layers = "Dequantize IntegerConv RoundedSum IntegerConv RoundedSum Quantize";
  EXPECT_EQ(operators(two), layers);
  // Values that are outputs of the network, or have another reader, are computed in addition to the integers.
  EXPECT_EQ(operators(with(two, "output \"q\"", "output \"q1\" %q1 output \"q\"")),
            "Dequantize IntegerConv RoundedSum Quantize IntegerConv RoundedSum Quantize");
  EXPECT_EQ(operators(with(two, "output \"q\"", "output \"c\" %c output \"q\"")),
            "Dequantize IntegerConv WeightedSum RoundedSum IntegerConv RoundedSum Quantize");
  EXPECT_EQ(
      operators(with(two, "output \"q\"", "%g: f32[1,2,4,3] = Sigmoid@13 \"g\"(%x1) output \"g\" %g output \"q\"")),
      "Dequantize IntegerConv RoundedSum Mul IntegerConv Sigmoid RoundedSum Quantize");
  // A Dequantize with a different zero point shifts the integers; a different scale only changes the factor.
  EXPECT_EQ(operators(with(two, "(%q1, %ys, %yz)", "(%q1, %ys, %z)")),
            "Dequantize IntegerConv RoundedSum Add IntegerConv RoundedSum Quantize");
  EXPECT_EQ(operators(with(two, "(%q1, %ys, %yz)", "(%q1, %s, %yz)")), layers);
}

TEST(IntegerArithmetic, CodesOfFloatsAreRoundedOnce) {
  EXPECT_EQ(operators(network(fmt::format(R"(input %f: f32[1,2,4,3]
    %q1: u8[1,2,4,3] = kilter::Quantize@1 "q1" {{precision=1, to=2}}(%f, %bs, %yz)
    %x1: f32[1,2,4,3] = kilter::Dequantize@1 "x1" {{to=1}}(%q1, %bs, %yz)
    %y: f32[1,2,4,3] = Conv@11 "y"(%x1, %v)
    {})",
                                          rounded("y", "1,2,4,3")))),
            "Div RoundedSum IntegerConv RoundedSum Quantize");
}

TEST(IntegerArithmetic, MeansBecomeIntegerSums) {
  const std::string sums = "Dequantize ReduceSum RoundedSum Quantize";
  EXPECT_EQ(operators(layer(R"(%y: f32[1,2,1,1] = GlobalAveragePool@1 "y"(%x))", "y", "1,2,1,1")), sums);
  EXPECT_EQ(operators(layer(R"(%y: f32[1,2,1,1] = ReduceMean@18 "y"(%x, %axes))", "y", "1,2,1,1")), sums);
  const std::string windows =
      layer(R"(%y: f32[1,2,4,3] = AveragePool@11 "y" {kernel_shape=[2, 2], pads=[1, 1, 0, 0]}(%x))");
  EXPECT_EQ(operators(windows), "Dequantize AveragePool RoundedSum RoundedSum Quantize");
  EXPECT_EQ(operators(with(windows, "[2, 2],", "[2, 2], count_include_pad=1,")),
            "Dequantize AveragePool RoundedSum RoundedSum Quantize");
  EXPECT_EQ(operators(with(windows, "[2, 2],", "[2, 2], ceil_mode=1,")),
            "Dequantize AveragePool RoundedSum RoundedSum Quantize");
  EXPECT_EQ(operators(layer(R"(%y: f32[1,2] = ReduceMean@18 "y" {keepdims=0}(%x, %axes))", "y", "1,2")),
            "Dequantize ReduceMean Quantize");
}

TEST(IntegerArithmetic, MovesReadIntegers) {
  EXPECT_EQ(operators(layer(R"(%y: f32[1,4,3,2] = Transpose@13 "y" {perm=[0, 2, 3, 1]}(%x))", "y", "1,4,3,2")),
            "Dequantize Transpose RoundedSum Quantize");
  EXPECT_EQ(operators(layer(R"(%y: f32[1,24] = Flatten@13 "y"(%x))", "y", "1,24")),
            "Dequantize Flatten RoundedSum Quantize");
  EXPECT_EQ(operators(layer(R"(%y: f32[1,2,3,2] = MaxPool@12 "y" {kernel_shape=[2, 2]}(%x))", "y", "1,2,3,2")),
            "Dequantize MaxPool RoundedSum Quantize");
  // Parts of a Concat are rounded before they are joined if all readers round in the same way.
  const std::string joined = layer(R"(%y: f32[1,4,4,3] = Concat@13 "y" {axis=1}(%x, %r))", "y", "1,4,4,3");
  EXPECT_EQ(operators(joined), "Dequantize Dequantize RoundedSum RoundedSum Concat Quantize");
  EXPECT_EQ(operators(with(joined, "output \"q\"", "output \"y\" %y output \"q\"")),
            "Dequantize Dequantize Concat Quantize");
}

/// Every layer of these networks multiplies floats.
TEST(IntegerArithmetic, InexactLayersStayInFloat) {
  const std::string conv = layer(kConv, "c");
  ASSERT_EQ(operators(conv), "Dequantize IntegerConv RoundedSum Quantize");
  const auto floats = [](const std::string& text, const std::string& keep_float = "") {
    const std::string found = operators(text, keep_float);
    EXPECT_EQ(found.find("Integer"), std::string::npos) << found;
    EXPECT_EQ(found.find("RoundedSum"), std::string::npos) << found;
  };
  floats(conv, "c");
  floats(with(conv, "const %s: f32[](0.5)", "input %s: f32[]"));
  const std::string unused = with(conv, "(%qa, %s, %z)", "(%qa, %rs, %yz)");
  floats(with(unused, "const %s: f32[](0.5)", "const %s: f32[2,1,1](0.5, 0.25)"));
  floats(with(unused, "const %z: u8[](7)", "const %z: u8[2,1,1](7, 8)"));
  floats(with(conv, "const %w: i8[2,2,1,1](1, -2, 3, 100)", "input %w: i8[2,2,1,1]"));
  floats(with(conv, "const %ws: f32[](0.25)", "const %ws: f32[1,2,1,1](0.25, 1)"));
  floats(with(conv, "const %bias: i32[2](5, -300)", "input %bias: i8[2]"));
  floats(with(with(conv, "const %w: i8[2,2,1,1]", "const %w: i16[2,2,1,1]"), "const %wz: i8[]", "const %wz: i16[]"));
  floats(with(with(unused, "input %qx: u8", "input %qx: u16"), "const %z: u8", "const %z: u16"));
  EXPECT_EQ(operators(with(conv, "const %ys: f32[](2)", "const %ys: f32[2,1,1](2, 1)")),
            "Dequantize IntegerConv WeightedSum Quantize")
      << "results with a scale for each channel";
}

TEST(IntegerArithmetic, CodesOfScaleOneAreIntegersAlready) {
  const std::string conv = with(with(layer(kConv, "c"), "(%qx, %s, %z)", "(%qx, %unit, %z)"),
                                "const %s:", "const %unit: f32[](1)\n    const %s:");
  EXPECT_EQ(operators(conv), "Dequantize IntegerConv RoundedSum Quantize");
}

TEST(IntegerArithmetic, I32SumsAreNotMoved) {
  const auto moved = [](std::string_view node, std::string_view shape) {
    return operators(layer(fmt::format("%c: f32[1,2,4,3] = Conv@11 \"c\"(%x, %v)\n{}", node), "y", shape));
  };
  const std::string sums = "Dequantize IntegerConv WeightedSum ";
  EXPECT_EQ(moved(R"(%y: f32[1,2,3,2] = MaxPool@12 "y" {kernel_shape=[2, 2]}(%c))", "1,2,3,2"),
            sums + "MaxPool Quantize");
  EXPECT_EQ(moved(R"(%y: f32[1,4,3,2] = Transpose@13 "y" {perm=[0, 2, 3, 1]}(%c))", "1,4,3,2"),
            sums + "Transpose Quantize");
  EXPECT_EQ(moved(R"(%y: f32[1,24] = Flatten@13 "y"(%c))", "1,24"), sums + "Flatten Quantize");
  EXPECT_EQ(moved(R"(%y: f32[1,4,4,3] = Concat@13 "y" {axis=1}(%c, %c) output "y" %y)", "1,4,4,3"),
            sums + "Concat Quantize");
}

TEST(IntegerArithmetic, SumsThatMayOverflowStayInFloat) {
  const auto product = [](int64_t depth) {
    Graph graph = parse_graph(fmt::format(R"(graph "g" {{
      input %qa: u8[1,{0}]
      const %s: f32[](0.5)
      const %m: i8[{0},1]#1
      %a: f32[1,{0}] = kilter::Dequantize@1 "a" {{to=1}}(%qa, %s)
      %n: f32[{0},1] = kilter::Dequantize@1 "n" {{to=1}}(%m, %s)
      %y: f32[1,1] = MatMul@13 "y"(%a, %n)
      output "y" %y
    }})",
                                          depth),
                              {{"m", Tensor(DType::i8, {depth, 1})}});
    run_pass(integer_arithmetic, graph);
    return print(graph).find("IntegerMatMul") != std::string::npos;
  };
  constexpr int64_t kDeepest = INT32_MAX / (255 * 255);
  EXPECT_TRUE(product(kDeepest));
  EXPECT_FALSE(product(kDeepest + 1));
}

TEST(IntegerArithmetic, AnyRewriteLimitGivesTheSameResults) {
  const Graph whole = parse_graph(network(fmt::format(
      R"({}
    %q1: u8[1,2,4,3] = kilter::Quantize@1 "q1" {{precision=1, to=2}}(%c, %ys, %yz)
    %x1: f32[1,2,4,3] = kilter::Dequantize@1 "x1" {{to=1}}(%q1, %ys, %yz)
    %d: f32[1,2,4,3] = Conv@11 "d"(%x1, %v)
    %y: f32[1,2,4,3] = Add@14 "y"(%d, %r)
    {})",
      kConv, rounded("y", "1,2,4,3"))));
  const std::vector<Tensor> want = results(whole);
  int64_t all = 0;
  for (int64_t most = 0; most < 12; ++most) {
    Graph graph = whole;
    all = run_pass(integer_arithmetic, graph, "x86-64-v3", most);
    EXPECT_LE(all, most);
    EXPECT_TRUE(results(graph).at(0).same(want.at(0))) << print(graph);
  }
  EXPECT_LT(all, 11) << "the last limits stop nothing";
}

}  // namespace
}  // namespace kilter
