#include <gtest/gtest.h>

#include "ops/support/evaluate.h"
#include "pass_runner.h"

namespace kilter {
namespace {

TEST(Canonicalise, GemmBecomesAProductAndSums) {
  EXPECT_EQ(after(canonicalise, R"(graph "g" {
    input %x: f32[3,2]
    const %w: f32[4,3](1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)
    const %c: f32[4](1, 2, 3, 4)
    %a: f32[2,4] = Gemm@13 "a" {alpha=0.5, beta=2.0, transA=1, transB=1}(%x, %w, %c)
    output "a" %a
  })"),
            "%a.a: f32[2,3] = Transpose@28 \"a.a\" {perm=[1, 0]}(%x)\n"
            "%a_1: f32[2,4] = MatMul@28 \"a_1\"(%a.a, %w.t)\n"
            "%a.alpha: f32[2,4] = Mul@28 \"a.alpha\"(%a_1, %const)\n"
            "%a: f32[2,4] = Add@28 \"a.c\"(%a.alpha, %a.beta)\n"
            "output \"a\" %a\n");
}

TEST(Canonicalise, GemmTransposesRunTimeOperands) {
  EXPECT_EQ(after(canonicalise, R"(graph "g" {
    input %x: f32[2,3]
    input %y: f32[4,3]
    %b: f32[2,4] = Gemm@13 "b" {transB=1}(%x, %y)
    output "b" %b
  })"),
            "%b.b: f32[3,4] = Transpose@28 \"b.b\" {perm=[1, 0]}(%y)\n"
            "%b: f32[2,4] = MatMul@28 \"b_1\"(%x, %b.b)\n"
            "output \"b\" %b\n");
}

TEST(Canonicalise, ReshapesAroundAProductAreRemoved) {
  EXPECT_EQ(after(canonicalise, R"(graph "g" {
    input %x: f32[1,3,2]
    const %w: f32[2,4](1, 2, 3, 4, 5, 6, 7, 8)
    const %c: f32[4](1, 2, 3, 4)
    const %in: i64[2](3, 2)
    const %out: i64[3](1, 3, 4)
    %a: f32[3,2] = Reshape@13 "a"(%x, %in)
    %b: f32[3,4] = Gemm@13 "b"(%a, %w, %c)
    %y: f32[1,3,4] = Reshape@13 "y"(%b, %out)
    output "y" %y
  })"),
            "%b_1_1: f32[1,3,4] = MatMul@28 \"b_1_1\"(%x, %w)\n"
            "%y: f32[1,3,4] = Add@28 \"y.bias\"(%b_1_1, %c)\n"
            "output \"y\" %y\n");
}

TEST(Canonicalise, ReshapesAreKeptIfWeightsWouldBeReadOften) {
  const auto stays = [](std::string_view shape, std::string_view product, std::string_view result) {
    EXPECT_EQ(unchanged(canonicalise, fmt::format(R"(graph "g" {{
      input %x: f32[6,2,1] input %w: f32[2,4] input %c: f32[6,1]
      const %in: i64[2](6, 2)
      const %out: i64[3]({})
      %a: f32[6,2] = Reshape@28 "a"(%x, %in)
      %m: f32[6,4] = MatMul@28 "m"(%a, %w)
      {}
      {}
      output "y" %y
    }})",
                                                  shape, product, result)),
              "");
  };
  stays("3, 2, 4", "", "%y: f32[3,2,4] = Reshape@28 \"y\"(%m, %out)");
  stays("1, 12, 2", "", "%y: f32[1,12,2] = Reshape@28 \"y\"(%m, %out)");
  stays("1, 6, 4", "%s: f32[6,4] = Add@28 \"s\"(%m, %c)", "%y: f32[1,6,4] = Reshape@28 \"y\"(%s, %out)");
  stays("1, 6, 4", "", "%y: f32[1,6,4] = Reshape@28 \"y\"(%m, %out) output \"m\" %m");
}

TEST(Canonicalise, SpectraOfFramesBecomeAProduct) {
  const std::string_view text = R"(graph "g" {
    input %x: f32[2,20]
    const %step: i64[](3)
    const %window: f32[4](1, 2, 3, 4)
    %y: f32[2,6,3,2] = STFT@17 "y"(%x, %step, %window)
    output "y" %y
  })";
  EXPECT_EQ(after(canonicalise, text),
            "%y.frames: f32[2,6,4] = kilter::StridedView@1 \"y.frames\" {offset=0, shape=[2, 6, 4], strides=[20, 3, "
            "1]}(%x)\n"
            "%y.product: f32[2,6,6] = MatMul@28 \"y.product\"(%y.frames, %y.waves)\n"
            "%y: f32[2,6,3,2] = Reshape@28 \"y_1\"(%y.product, %const)\n"
            "output \"y\" %y\n");
  Graph graph = parse_graph(text);
  run_pass(canonicalise, graph);
  const Tensor& waves = *graph.value(graph.find_value("y.waves")).constant;
  const std::vector<double> wanted{1, 0, 1, 0, 1, 0, 2, 0, 0, -2, -2, 0, 3, 0, -3, 0, 3, 0, 4, 0, 0, 4, -4, 0};
  for (int64_t i = 0; i < waves.elems(); ++i)
    EXPECT_NEAR(waves.as_double(i), wanted[static_cast<size_t>(i)], 1e-6) << i;
}

TEST(Canonicalise, OtherSpectraAreUnchanged) {
  const auto stays = [](std::string_view operands, std::string_view node) {
    EXPECT_EQ(unchanged(canonicalise, fmt::format(R"(graph "g" {{
      {}
      const %step: i64[](3)
      {}
      output "y" %y
    }})",
                                                  operands, node)),
              "");
  };
  stays("input %x: f32[2,20] input %window: f32[4]", "%y: f32[2,6,3,2] = STFT@17 \"y\"(%x, %step, %window)");
  stays("input %x: f32[2,20] input %length: i64[]", "%y: f32[2,6,3,2] = STFT@17 \"y\"(%x, %step, _, %length)");
  stays("input %x: f32[2,20,2] const %window: f32[4](1, 2, 3, 4)",
        "%y: f32[2,6,4,2] = STFT@17 \"y\" {onesided=0}(%x, %step, %window)");
  stays("input %x: f64[2,20] const %window: f64[4](1, 2, 3, 4)",
        "%y: f64[2,6,3,2] = STFT@17 \"y\"(%x, %step, %window)");
  stays("input %x: f32[1,4096]", "%y: f32[1,1,2049,2] = STFT@17 \"y\"(%x, %step)");  // waves of more than 64 MiB
}

TEST(Canonicalise, RunTimeFilterConvolutionsBecomeProducts) {
  EXPECT_EQ(after(canonicalise, R"(graph "g" {
    input %x: f32[2,4,5,6]
    input %w: f32[6,2,3,1]
    input %b: f32[6]
    %y: f32[2,6,3,6] = Conv@11 "y" {group=2, strides=[2,1], pads=[1,0,1,0]}(%x, %w, %b)
    output "y" %y
  })"),
            "%y.padded: f32[2,4,7,6] = Pad@28 \"y.padded\"(%x, %const)\n"
            "%y.columns: f32[2,4,3,1,3,6] = kilter::StridedView@1 \"y.columns\" {offset=0, shape=[2, 4, 3, 1, 3, 6], "
            "strides=[168, 42, 6, 1, 12, 1]}(%y.padded)\n"
            "%y.filters: f32[1,2,3,6] = Reshape@28 \"y.filters\"(%w, %const_1)\n"
            "%y.groups: f32[2,2,6,18] = Reshape@28 \"y.groups\"(%y.columns, %const_2)\n"
            "%y_1: f32[2,2,3,18] = MatMul@28 \"y_1\"(%y.filters, %y.groups)\n"
            "%y.out: f32[2,6,3,6] = Reshape@28 \"y.out\"(%y_1, %const_3)\n"
            "%y.bias: f32[1,6,1,1] = Reshape@28 \"y.bias\"(%b, %const_4)\n"
            "%y: f32[2,6,3,6] = Add@28 \"y.sum\"(%y.out, %y.bias)\n"
            "output \"y\" %y\n");
}

TEST(Canonicalise, DilatedFiltersOfTransposedConvolutionsAreSpread) {
  const std::string_view text = R"(graph "g" {
    input %x: f32[1,1,2,2]
    const %w: f32[1,1,2,2](1, 2, 3, 4)
    %y: f32[1,1,4,3] = ConvTranspose@11 "y" {dilations=[2,1], kernel_shape=[2,2]}(%x, %w)
    output "y" %y
  })";
  EXPECT_EQ(after(canonicalise, text),
            "%y: f32[1,1,4,3] = ConvTranspose@11 \"y_1\" {kernel_shape=[3, 2]}(%x, %w.spread)\noutput \"y\" %y\n");
  Graph graph = parse_graph(text);
  run_pass(canonicalise, graph);
  const Tensor& spread = *graph.value(graph.find_value("w.spread")).constant;
  EXPECT_TRUE(spread.same(Tensor::of<float>({1, 1, 3, 2}, {1, 2, 0, 0, 3, 4})));
}

TEST(Canonicalise, RunTimeBiasesBecomeSums) {
  EXPECT_EQ(after(canonicalise, R"(graph "g" {
    input %x: f32[1,1,3]
    const %w: f32[1,2,2](1, 2, 3, 4)
    input %b: f32[2]
    %y: f32[1,2,4] = ConvTranspose@11 "y"(%x, %w, %b)
    output "y" %y
  })"),
            "%y.in: f32[1,1,1,3] = Reshape@28 \"y.in\"(%x, %const)\n"
            "%y_1: f32[1,2,1,4] = ConvTranspose@28 \"y_1\" {dilations=[1, 1], group=1, kernel_shape=[1, 2], "
            "output_padding=[0, 0], pads=[0, 0, 0, 0], strides=[1, 1]}(%y.in, %w_1)\n"
            "%y.out: f32[1,2,4] = Reshape@28 \"y.out\"(%y_1, %const_1)\n"
            "%y.bias: f32[1,2,1] = Reshape@28 \"y.bias\"(%b, %const_2)\n"
            "%y: f32[1,2,4] = Add@28 \"y.sum\"(%y.out, %y.bias)\n"
            "output \"y\" %y\n");
}

TEST(Canonicalise, BatchNormalizationBecomesScaleAndShift) {
  const std::string_view text = R"(graph "g" {
    input %x: f32[1,2,3]
    const %scale: f32[2](2, 3)
    const %bias: f32[2](1, -1)
    const %mean: f32[2](0.5, 4)
    const %var: f32[2](3, 8)
    %y: f32[1,2,3] = BatchNormalization@15 "y" {epsilon=1.0}(%x, %scale, %bias, %mean, %var)
    output "y" %y
  })";
  EXPECT_EQ(after(canonicalise, text),
            "%y.mul: f32[1,2,3] = Mul@28 \"y.mul\"(%x, %y.scale)\n"
            "%y: f32[1,2,3] = Add@28 \"y_1\"(%y.mul, %y.shift)\n"
            "output \"y\" %y\n");
  Graph graph = parse_graph(text);
  run_pass(canonicalise, graph);
  EXPECT_TRUE(graph.value(graph.find_value("y.scale")).constant->same(Tensor::of<float>({2, 1}, {1, 1})));
  EXPECT_TRUE(graph.value(graph.find_value("y.shift")).constant->same(Tensor::of<float>({2, 1}, {0.5F, -5})));
}

TEST(Canonicalise, SignalConvolutionsBecomeImageConvolutions) {
  EXPECT_EQ(after(canonicalise, R"(graph "g" {
    input %x: f32[1,2,5]
    const %w: f32[1,2,3](1, 2, 3, 4, 5, 6)
    const %b: f32[1](1)
    %y: f32[1,1,3] = Conv@11 "y" {auto_pad="SAME_UPPER", strides=[2]}(%x, %w, %b)
    output "y" %y
  })"),
            "%y.in: f32[1,2,1,5] = Reshape@28 \"y.in\"(%x, %const)\n"
            "%y_1: f32[1,1,1,3] = Conv@28 \"y_1\" {dilations=[1, 1], group=1, kernel_shape=[1, 3], pads=[0, 1, 0, 1], "
            "strides=[1, 2]}(%y.in, %w_1, %b)\n"
            "%y: f32[1,1,3] = Reshape@28 \"y.out\"(%y_1, %const_1)\n"
            "output \"y\" %y\n");
}

TEST(Canonicalise, SignalPoolsAndTransposedConvolutionsRunOnImages) {
  const auto expect = [](std::string_view type, std::string_view node, std::string_view image, std::string_view attrs) {
    const std::string text = after(canonicalise, fmt::format(R"(graph "g" {{
    input %x: f32[1,2,5]
    const %w: f32[2,3,4]#0
    const %v: f32[2,1,4]#0
    %y: {} = {}
    output "y" %y
  }})",
                                                             type, node));
    EXPECT_NE(text.find(fmt::format("%y_1: {} =", image)), std::string::npos) << text;
    EXPECT_NE(text.find(fmt::format("{{{}}}(%y.in", attrs)), std::string::npos) << text;
    EXPECT_NE(text.find(fmt::format("%y: {} = Reshape@28 \"y.out\"(%y_1", type)), std::string::npos) << text;
  };
  expect("f32[1,3,11]", "ConvTranspose@11 \"y\" {strides=[2], pads=[1, 1], output_padding=[1]}(%x, %w)",
         "f32[1,3,1,11]",
         "dilations=[1, 1], group=1, kernel_shape=[1, 4], output_padding=[0, 1], pads=[0, 1, 0, 1], strides=[1, 2]");
  expect("f32[1,3,10]", "ConvTranspose@11 \"y\" {strides=[2], auto_pad=\"SAME_UPPER\"}(%x, %w)", "f32[1,3,1,10]",
         "dilations=[1, 1], group=1, kernel_shape=[1, 4], output_padding=[0, 0], pads=[0, 1, 0, 1], strides=[1, 2]");
  expect("f32[1,3,16]", "ConvTranspose@11 \"y\" {strides=[3], output_shape=[16]}(%x, %w)", "f32[1,3,1,16]",
         "dilations=[1, 1], group=1, kernel_shape=[1, 4], output_padding=[0, 0], pads=[0, 0, 0, 0], strides=[1, 3]");
  expect("f32[1,2,8]", "ConvTranspose@11 \"y\" {group=2}(%x, %v)", "f32[1,2,1,8]",
         "dilations=[1, 1], group=2, kernel_shape=[1, 4], output_padding=[0, 0], pads=[0, 0, 0, 0], strides=[1, 1]");
  expect("f32[1,2,3]", "MaxPool@12 \"y\" {kernel_shape=[2], strides=[2], ceil_mode=1}(%x)", "f32[1,2,1,3]",
         "ceil_mode=1, dilations=[1, 1], kernel_shape=[1, 2], pads=[0, 0, 0, 0], strides=[1, 2]");
  expect("f32[1,2,3]", "MaxPool@12 \"y\" {kernel_shape=[2], strides=[2], ceil_mode=1, auto_pad=\"SAME_LOWER\"}(%x)",
         "f32[1,2,1,3]", "dilations=[1, 1], kernel_shape=[1, 2], pads=[0, 1, 0, 0], strides=[1, 2]");
  expect("f32[1,2,5]", "AveragePool@11 \"y\" {kernel_shape=[3], pads=[1, 1], count_include_pad=1}(%x)", "f32[1,2,1,5]",
         "ceil_mode=0, count_include_pad=1, dilations=[1, 1], kernel_shape=[1, 3], pads=[0, 1, 0, 1], strides=[1, 1]");
}

TEST(Canonicalise, SignalsWithoutImageKernelAreUnchanged) {
  EXPECT_EQ(unchanged(canonicalise, R"(graph "g" {
    input %x: f32[1,4,5]
    input %u: f32[4,3,2]
    input %h: f16[1,4,5]
    %c: f32[1,3,6] = ConvTranspose@11 "c"(%x, %u)
    %d: f32[1,4,4], %i: i64[1,4,4] = MaxPool@12 "d" {kernel_shape=[2]}(%x)
    %e: f16[1,4,4] = MaxPool@12 "e" {kernel_shape=[2]}(%h)
    output "c" %c
    output "d" %d
    output "i" %i
    output "e" %e
  })"),
            "");
}

/// A network that stores the results of a convolution of patches channels last, as vision transformers embed an image.
std::string patches_text(std::string_view conv_attrs, std::string_view rest, std::string_view shape = "1,2,2,3") {
  return fmt::format(R"(graph "g" {{
    input %x: f32[1,2,8,12]
    const %w: f32[2,2,4,4]#6350fb799a36e6d5
    const %b: f32[2](1, 2)
    %c: f32[{}] = Conv@11 "c" {{{}}}(%x, %w, %b)
    {}
  }})",
                     shape, conv_attrs, rest);
}

TEST(Canonicalise, PatchConvolutionsWithChannelsLastBecomeProducts) {
  const std::string rows =
      "%c.split: f32[1,2,2,4,3,4] = Reshape@28 \"c.split\"(%x, %const)\n"
      "%c.patches: f32[1,2,3,2,4,4] = Transpose@28 \"c.patches\" {perm=[0, 2, 4, 1, 3, 5]}"
      "(%c.split)\n"
      "%c.rows: f32[1,6,32] = Reshape@28 \"c.rows\"(%c.patches, %const_1)\n"
      "%c_1: f32[1,6,2] = MatMul@28 \"c_1\"(%c.rows, %w.t)\n";
  const std::string merged = patches_text("strides=[4, 4]", R"(const %merged: i64[3](1, 2, -1)
    %m: f32[1,2,6] = Reshape@14 "m"(%c, %merged)
    %y: f32[1,6,2] = Transpose@13 "y" {perm=[0, 2, 1]}(%m)
    output "y" %y)");
  const std::string image =
      patches_text("strides=[4, 4]", R"(%y: f32[1,2,3,2] = Transpose@13 "y" {perm=[0, 2, 3, 1]}(%c)
    output "y" %y)");
  EXPECT_EQ(after(canonicalise, merged), rows + "%y: f32[1,6,2] = Add@28 \"c.bias\"(%c_1, %b)\noutput \"y\" %y\n");
  EXPECT_EQ(after(canonicalise, image), rows +
                                            "%c.bias: f32[1,6,2] = Add@28 \"c.bias\"(%c_1, %b)\n"
                                            "%y: f32[1,2,3,2] = Reshape@28 \"c.image\"(%c.bias, %const_2)\n"
                                            "output \"y\" %y\n");
  for (const std::string& text : {merged, image}) {
    Tensor x(DType::f32, {1, 2, 8, 12}), w(DType::f32, {2, 2, 4, 4});
    for (int64_t i = 0; i < x.elems(); ++i) x.data<float>()[i] = static_cast<float>(i * 29 % 23 - 11);
    for (int64_t i = 0; i < w.elems(); ++i) w.data<float>()[i] = static_cast<float>(i * 37 % 19 - 9);
    Graph graph = parse_graph(text, {{"w", w}});
    const Tensor before = evaluate(graph, {x}).at(0);
    run_pass(canonicalise, graph);
    const Tensor now = evaluate(graph, {x}).at(0);
    for (int64_t i = 0; i < before.elems(); ++i) EXPECT_EQ(now.as_double(i), before.as_double(i)) << i;
  }
}

TEST(Canonicalise, OtherConvolutionsAreUnchanged) {
  const auto stays = [](const std::string& text) { EXPECT_EQ(unchanged(canonicalise, text), "") << text; };
  const std::string last = R"(%y: f32[1,2,3,2] = Transpose@13 "y" {perm=[0, 2, 3, 1]}(%c)
    output "y" %y)";
  stays(patches_text("strides=[4, 4]", last + "\n    output \"c\" %c"));
  stays(patches_text("strides=[4, 4]", R"(%y: f32[1,2,3,2] = Transpose@13 "y" {perm=[0, 2, 3, 1]}(%c)
    %z: f32[1,2,2,3] = Relu@14 "z"(%c)
    output "y" %y
    output "z" %z)"));
  stays(patches_text("strides=[4, 4]", R"(%y: f32[1,2,3,2] = Transpose@13 "y" {perm=[0, 1, 3, 2]}(%c)
    output "y" %y)"));
  stays(patches_text("strides=[2, 4]", R"(%y: f32[1,3,3,2] = Transpose@13 "y" {perm=[0, 2, 3, 1]}(%c)
    output "y" %y)",
                     "1,2,3,3"));
  stays(patches_text("pads=[0, 0, 0, 4], strides=[4, 4]", R"(%y: f32[1,2,4,2] = Transpose@13 "y" {perm=[0, 2, 3, 1]}(%c)
    output "y" %y)",
                     "1,2,2,4"));
}

TEST(Canonicalise, GlobalPoolsBecomeReductions) {
  EXPECT_EQ(after(canonicalise, R"(graph "g" {
    input %x: f32[2,3,4,5]
    %a: f32[2,3,1,1] = GlobalAveragePool@1 "a"(%x)
    %b: f32[2,3,1,1] = GlobalMaxPool@1 "b"(%x)
    output "a" %a
    output "b" %b
  })"),
            "%a: f32[2,3,1,1] = ReduceMean@28 \"a_1\" {keepdims=1}(%x, %a.axes)\n"
            "%b: f32[2,3,1,1] = ReduceMax@28 \"b_1\" {keepdims=1}(%x, %b.axes)\n"
            "output \"a\" %a\n"
            "output \"b\" %b\n");
}

TEST(Canonicalise, SoftmaxMovesToTheLastAxis) {
  EXPECT_EQ(after(canonicalise, R"(graph "g" {
    input %x: f32[2,3,4]
    const %axes: i64[2](0, -1)
    %c: f32[2,3,4] = Softmax@13 "c" {axis=-2}(%x)
    %d: f32[3] = ReduceSum@13 "d" {keepdims=0}(%c, %axes)
    output "d" %d
  })"),
            "%c.in: f32[2,4,3] = Transpose@28 \"c.in\" {perm=[0, 2, 1]}(%x)\n"
            "%c_1: f32[2,4,3] = Softmax@28 \"c_1\" {axis=-1}(%c.in)\n"
            "%c: f32[2,3,4] = Transpose@28 \"c.out\" {perm=[0, 2, 1]}(%c_1)\n"
            "%d_1: f32[1,3,1] = ReduceSum@28 \"d_1\" {keepdims=1}(%c, %d.axes)\n"
            "%d: f32[3] = Reshape@28 \"d.squeeze\"(%d_1, %const)\n"
            "output \"d\" %d\n");
}

TEST(Canonicalise, CanonicalAndRunTimeNodesAreUnchanged) {
  EXPECT_EQ(unchanged(canonicalise, R"(graph "g" {
    input %x: f32[1,2,5]
    input %w: f64[1,2,3]
    input %z: f64[1,2,5]
    input %s: f32[2]
    input %h: f16[2,2]
    const %k: f32[2](1, 1)
    const %axes: i64[1](1)
    %a: f64[1,1,3] = Conv@11 "a"(%z, %w)
    %b: f32[1,2,5] = BatchNormalization@15 "b"(%x, %s, %k, %k, %k)
    %c: f32[1,2,5] = Softmax@13 "c"(%x)
    %d: f32[1,2,5] = Softmax@11 "d" {axis=1}(%x)
    %e: f32[1,1,5] = ReduceMean@18 "e"(%x, %axes)
    %f: f16[2,2] = Gemm@13 "f"(%h, %h)
    output "a" %a
    output "b" %b
    output "c" %c
    output "d" %d
    output "e" %e
    output "f" %f
  })"),
            "");
}

}  // namespace
}  // namespace kilter
