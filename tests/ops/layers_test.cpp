// Results of convolutions, poolings, products, normalisations and recurrences that can be calculated by hand.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "../base/error_of.h"
#include "ops/support/builder.h"
#include "ops/support/cases.h"
#include "ops/support/evaluate.h"

namespace kilter {
namespace {

using Ints = std::vector<int64_t>;

/// Returns all outputs for constant inputs (undefined = left out), computed by reference kernels.
std::vector<Tensor> outputs_of(std::string_view op, const std::vector<Tensor>& inputs, Attrs attrs = {},
                               int32_t opset = kNewestOpset, size_t count = 1) {
  Graph graph;
  GraphBuilder builder(graph, opset);
  std::vector<ValueId> ids;
  for (const Tensor& input : inputs) ids.push_back(input.defined() ? builder.constant(input) : kNone);
  GraphBuilder::Options options;
  options.name = "n";
  for (size_t i = 0; i < count; ++i) options.output_names.push_back("out" + std::to_string(i));
  for (const ValueId id : builder.add(op, ids, std::move(attrs), options)) graph.add_output(id, graph.value(id).name);
  return evaluate(graph, {});
}

Tensor floats(Shape shape, std::vector<float> values) {
  return Tensor::of<float>(std::move(shape), std::span<const float>(values));
}
/// Returns 0, 1, 2, ... in a given shape.
Tensor counted(const Shape& shape) {
  std::vector<float> values;
  for (int64_t i = 0; i < elems(shape); ++i) values.push_back(static_cast<float>(i));
  return floats(shape, values);
}

void expect_near(const Tensor& got, const Shape& shape, const std::vector<double>& want, double bound = 1e-6) {
  ASSERT_EQ(got.shape(), shape);
  for (size_t i = 0; i < want.size(); ++i) {
    EXPECT_NEAR(got.as_double(static_cast<int64_t>(i)), want[i], bound) << "element " << i;
  }
}

TEST(Layers, ConvolutionReadsPaddingAsZeroAndCrossCorrelates) {
  const Tensor y = outputs_of("Conv", {counted({1, 1, 3, 3}), floats({1, 1, 2, 2}, {1, 2, 3, 4}), floats({1}, {100})},
                              {{"pads", Ints{1, 0, 0, 0}}})[0];
  expect_near(y, {1, 1, 3, 2}, {104, 111, 127, 137, 157, 167});
}

TEST(Layers, DepthwiseConvolutionKeepsChannelsSeparate) {
  const Tensor y =
      outputs_of("Conv", {counted({1, 2, 3}), floats({2, 1, 2}, {1, -1, 10, 1})}, {{"group", int64_t{2}}})[0];
  expect_near(y, {1, 2, 2}, {-1, -1, 34, 45});
}

TEST(Layers, TransposedConvolutionAddsWhereWindowsOverlap) {
  const Tensor y = outputs_of("ConvTranspose", {floats({1, 1, 3}, {1, 10, 100}), floats({1, 1, 3}, {1, 2, 3})},
                              {{"strides", Ints{2}}})[0];
  expect_near(y, {1, 1, 7}, {1, 2, 13, 20, 130, 200, 300});
}

TEST(Layers, MaxPoolCountsItsIndicesInEitherOrder) {
  const Tensor x = floats({1, 1, 2, 3}, {1, 9, 2, 8, 3, 4});
  const Attrs attrs = {{"kernel_shape", Ints{2, 2}}};
  EXPECT_EQ(outputs_of("MaxPool", {x}, attrs, 12, 2)[1].ints(), (Ints{1, 1}));
  Attrs columns = attrs;
  columns["storage_order"] = int64_t{1};
  EXPECT_EQ(outputs_of("MaxPool", {x}, columns, 12, 2)[1].ints(), (Ints{2, 2}));
}

TEST(Layers, AveragePoolCountsPaddingOnRequest) {
  Attrs attrs = {{"kernel_shape", Ints{3}}, {"pads", Ints{1, 1}}, {"strides", Ints{3}}, {"ceil_mode", int64_t{1}}};
  const Tensor x = floats({1, 1, 5}, {3, 6, 9, 12, 15});
  expect_near(outputs_of("AveragePool", {x}, attrs)[0], {1, 1, 2}, {4.5, 12});
  attrs["count_include_pad"] = int64_t{1};
  expect_near(outputs_of("AveragePool", {x}, attrs)[0], {1, 1, 2}, {3, 12});
}

TEST(Layers, IntegerProductsWrap) {
  const Tensor big = Tensor::of<int32_t>({1, 2}, {1 << 30, 1});
  const Tensor b = Tensor::of<int32_t>({2, 1}, {4, 7});
  EXPECT_EQ(outputs_of("MatMul", {big, b})[0].ints(), Ints{7});
}

TEST(Layers, MatMulDropsTheDimensionOfVectors) {
  EXPECT_EQ(outputs_of("MatMul", {counted({3}), counted({2, 3, 4})})[0].shape(), (Shape{2, 4}));
  EXPECT_EQ(outputs_of("MatMul", {counted({2, 3}), counted({3})})[0].shape(), Shape{2});
  expect_near(outputs_of("MatMul", {counted({3}), counted({3})})[0], {}, {5});
}

TEST(Layers, GemmScalesAndTransposes) {
  const Tensor y = outputs_of("Gemm", {counted({2, 1}), counted({2, 2}), floats({2}, {1, 2})},
                              {{"alpha", 0.5F}, {"beta", 10.0F}, {"transA", int64_t{1}}, {"transB", int64_t{1}}})[0];
  expect_near(y, {1, 2}, {10.5, 21.5});
}

TEST(Layers, QuantisedProductRoundsTiesToEvenAndSaturates) {
  const auto u8 = [](Shape shape, std::vector<uint8_t> v) {
    return Tensor::of<uint8_t>(std::move(shape), std::span<const uint8_t>(v));
  };
  const Tensor one = floats({}, {1});
  const Tensor y = outputs_of("QLinearMatMul", {u8({1, 1}, {11}), one, u8({}, {10}), u8({1, 4}, {1, 3, 5, 255}), one,
                                                u8({}, {0}), floats({}, {2}), u8({}, {128})})[0];
  EXPECT_EQ(y.ints(), (Ints{128, 130, 130, 255}));
}

TEST(Layers, BatchNormalizationFoldsIntoScaleAndShift) {
  const Tensor y = outputs_of(
      "BatchNormalization",
      {counted({1, 2, 2}), floats({2}, {2, 1}), floats({2}, {0.5, 0}), floats({2}, {1, 2}), floats({2}, {4, 1})},
      {{"epsilon", 0.0F}})[0];
  expect_near(y, {1, 2, 2}, {-0.5, 0.5, 0, 1});
}

TEST(Layers, LayerNormalizationReturnsMeanAndInverseDeviation) {
  const std::vector<Tensor> y =
      outputs_of("LayerNormalization", {floats({1, 2}, {1, 5}), floats({2}, {1, 10})}, {{"epsilon", 0.0F}}, 17, 3);
  expect_near(y[0], {1, 2}, {-1, 10});
  expect_near(y[1], {1, 1}, {3});
  expect_near(y[2], {1, 1}, {0.5});
}

TEST(Layers, OldGroupNormalizationHasOneScalePerGroup) {
  const Tensor x = floats({1, 4, 1}, {0, 2, 10, 14});
  const Attrs attrs = {{"num_groups", int64_t{2}}, {"epsilon", 0.0F}};
  expect_near(outputs_of("GroupNormalization", {x, floats({2}, {1, 3}), floats({2}, {0, 1})}, attrs, 18)[0], {1, 4, 1},
              {-1, 1, -2, 4});
  expect_near(outputs_of("GroupNormalization", {x, floats({4}, {1, 2, 3, 4}), floats({4}, {0, 0, 1, 1})}, attrs)[0],
              {1, 4, 1}, {-1, 2, -2, 5});
}

TEST(Layers, RecurrentStepsFollowTheirDirectionAndLength) {
  // All weights are 1 and the activation is linear, so each step computes h = x + h.
  Attrs attrs = {{"hidden_size", int64_t{1}},
                 {"activations", std::vector<std::string>{"Affine"}},
                 {"direction", std::string("reverse")}};
  const Tensor x = floats({3, 2, 1}, {1, 10, 2, 20, 3, 30});
  const Tensor w = floats({1, 1, 1}, {1});
  const Tensor lengths = Tensor::of<int32_t>({2}, {3, 2});
  const std::vector<Tensor> y = outputs_of("RNN", {x, w, w, Tensor(), lengths}, attrs, 14, 2);
  expect_near(y[0], {3, 1, 2, 1}, {6, 30, 5, 20, 3, 0});
  expect_near(y[1], {1, 2, 1}, {6, 30});
  attrs["direction"] = std::string("forward");
  expect_near(outputs_of("RNN", {x, w, w, Tensor(), lengths}, attrs, 14, 2)[0], {3, 1, 2, 1}, {1, 10, 3, 30, 6, 0});
}

TEST(Layers, LstmGatesAreInputOutputForgetCell) {
  // Biases far from zero open or close the gates; the cell's input is tanh of its bias.
  const auto run = [](std::vector<float> bias) {
    bias.resize(8, 0.0F);
    const Tensor zero(DType::f32, {1, 4, 1});
    return outputs_of(
        "LSTM",
        {floats({1, 1, 1}, {0}), zero, zero, floats({1, 8}, bias), Tensor(), Tensor(), floats({1, 1, 1}, {0.5})},
        {{"hidden_size", int64_t{1}}}, 14, 3);
  };
  const double cell = std::tanh(1.0);
  expect_near(run({50, 50, 50, 1})[2], {1, 1, 1}, {0.5 + cell});
  expect_near(run({-50, 50, 50, 1})[2], {1, 1, 1}, {0.5});
  expect_near(run({50, 50, -50, 1})[2], {1, 1, 1}, {cell});
  expect_near(run({50, 50, -50, 1})[1], {1, 1, 1}, {std::tanh(cell)});
  expect_near(run({50, -50, -50, 1})[1], {1, 1, 1}, {0});
}

TEST(Layers, GruResetsBeforeOrAfterTheProduct) {
  // The update gate is closed and the reset gate half open, so the hidden gate sees half of the state. The recurrent
  // bias is halved only if the reset follows the product.
  const Tensor w(DType::f32, {1, 3, 1});
  const Tensor r = floats({1, 3, 1}, {0, 0, 1});
  const Tensor bias = floats({1, 6}, {-50, 0, 0, 0, 0, 0.4F});
  const auto run = [&](int64_t linear) {
    return outputs_of("GRU", {floats({1, 1, 1}, {0}), w, r, bias, Tensor(), floats({1, 1, 1}, {0.6F})},
                      {{"hidden_size", int64_t{1}}, {"linear_before_reset", linear}}, 14, 2)[1];
  };
  expect_near(run(0), {1, 1, 1}, {std::tanh(0.3 + 0.4)});
  expect_near(run(1), {1, 1, 1}, {std::tanh(0.3 + 0.2)});
}

TEST(Layers, RecurrentOperandsThatDoNotFitAreNamed) {
  const auto error = [](std::string_view domain, std::string_view op, std::string_view text) -> std::string {
    try {
      make_case(*find_op(domain, op, 22), text);
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::bad_model);
      return e.message();
    }
    return "no error";
  };
  EXPECT_EQ(error("", "RNN", "f32[3,2,4] f32[1,5,4] f32[1,5,6]"),
            "RNN 'case': w and r have shapes 1x5x4 and 1x5x6, expected 1x6x4 and 1x6x6");
  EXPECT_EQ(error("", "RNN", "f32[3,2,4] f32[1,5,4] f32[1,5,5] | activations=[Sine]"),
            "RNN 'case': attribute activations names 'Sine'; legal values are Relu, Tanh, Sigmoid, Affine, LeakyRelu, "
            "ThresholdedRelu, ScaledTanh, HardSigmoid, Elu, Softsign and Softplus");
  EXPECT_EQ(error("", "GRU", "f32[3,2,4] f32[1,15,4] f32[1,15,5] | activations=[Tanh]"),
            "GRU 'case': attribute activations has 1 names, expected 2");
  EXPECT_EQ(
      error("kilter", "LSTMSteps", "f32[3,2,21] f32[1,20,5]"),
      "LSTMSteps 'case': projected x and r have shapes 3x2x21 and 1x20x5, expected a last extent of 20 and 1x20x5");
  EXPECT_EQ(error("kilter", "GRUSteps", "f32[3,2,15] f32[1,15,5] ? f32[1,15]"),
            "GRUSteps 'case': hidden_bias (input 3) has shape 1x15, expected 1x5");
}

TEST(Layers, AttentionOfMaskedRowsIsZero) {
  const Tensor q = floats({1, 1, 2, 1}, {1, 1});
  const Tensor v = floats({1, 1, 2, 1}, {2, 4});
  const Tensor mask = Tensor::of<bool>({2, 2}, {false, false, true, true});
  expect_near(outputs_of("Attention", {q, q, v, mask}, {}, 23)[0], {1, 1, 2, 1}, {0, 3});
  expect_near(outputs_of("Attention", {q, q, v}, {{"is_causal", int64_t{1}}}, 23)[0], {1, 1, 2, 1}, {2, 3});
}

TEST(Layers, TransformsOfAnImpulse) {
  const Tensor impulse = floats({1, 3, 1}, {0, 1, 0});
  const double s = std::sqrt(3.0) / 2;
  const Tensor spectrum = outputs_of("DFT", {impulse})[0];
  expect_near(spectrum, {1, 3, 2}, {1, 0, -0.5, -s, -0.5, s});
  expect_near(outputs_of("DFT", {spectrum}, {{"inverse", int64_t{1}}})[0], {1, 3, 2}, {0, 0, 1, 0, 0, 0});
  EXPECT_EQ(outputs_of("DFT", {impulse}, {{"onesided", int64_t{1}}})[0].shape(), (Shape{1, 2, 2}));
}

TEST(Layers, SignalsThatAreNeitherRealNorComplexAreNamed) {
  EXPECT_EQ(error_of([] { make_case(*find_op("", "STFT", 17), "f32[1,40,3] i64[]=8 f32[16]"); }, ErrorKind::bad_model),
            "STFT 'case': signal has shape 1x40x3, expected [batch, length, 1 or 2] or [batch, length]");
}

TEST(Layers, ResizedIntegersRoundToEven) {
  const Tensor x = Tensor::of<uint8_t>({2}, {0, 1});
  const Tensor sizes = Tensor::of<int64_t>({1}, {3});
  const Attrs attrs = {{"mode", std::string("linear")},
                       {"coordinate_transformation_mode", std::string("align_corners")}};
  EXPECT_EQ(outputs_of("Resize", {x, Tensor(), Tensor(), sizes}, attrs)[0].ints(), (Ints{0, 0, 1}));
}

}  // namespace
}  // namespace kilter
