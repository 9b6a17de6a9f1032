// Convolutions and products of integers that are stored as bytes: exact sums, tails of words of four bytes, halos that
// hold the stored zero, on targets with an instruction for sums of bytes and on those without.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <map>

#include "base/random.h"
#include "guarded_run.h"
#include "narrow_layers.h"
#include "ops/support/evaluate.h"
#include "schedule/templates/byte_pairs.h"

namespace kilter {
namespace {

/// Quantised values or weights: random ones from `low` to `high`, or only these two, mostly `high`. One in `extreme` is
/// 127 or -128 instead, at random.
struct Values {
  int64_t low = -128, high = 127;
  bool ends = false;
  int64_t extreme = 0;

  Tensor tensor(DType type, const Shape& shape, std::string_view name) const {
    const Random random(7, name);
    Tensor out(type, shape);
    for (int64_t i = 0; i < out.elems(); ++i) {
      const auto at = static_cast<uint64_t>(i);
      int64_t value = ends ? (i % 16 == 0 ? low : high) : random.integer(at, low, high);
      if (extreme > 0 && random.integer(at + (1 << 20), 1, extreme) == 1) value = value > 0 ? 127 : -128;
      if (type == DType::f32)
        out.data<float>()[i] = static_cast<float>(value);
      else
        out.raw()[i] = static_cast<std::byte>(value);
    }
    return out;
  }
};

/// Runs a network of quantised values %q and weights %w, which must be exact, on all targets. `zero`: the zero point of
/// %q. `more`: weights that the nodes declare.
void expect_exact(std::string_view nodes, const Shape& codes, const Shape& weights, int64_t zero, const Values& x,
                  const Values& w, const std::map<std::string, Shape>& more = {}, const std::string& fused = "",
                  std::string_view step = "") {
  const std::string network = network_of_codes(nodes, codes, weights, zero);
  std::map<std::string, Tensor> constants{{"w", w.tensor(DType::f32, weights, "w")}};
  for (const auto& [name, shape] : more) constants.emplace(name, w.tensor(DType::f32, shape, name));
  const Graph graph = parse_graph(network, constants);
  const std::vector<Tensor> inputs{x.tensor(DType::u8, codes, "q")};
  const std::vector<Tensor> want = evaluate(graph, inputs);
  for (const Target& target : targets_here()) {
    const bool sums_bytes = target.limits.multiplies_bytes();
    CompileOptions options;
    options.target = target;
    if (sums_bytes && !fused.empty()) options.choices[fused].fuse = Fusion::before;
    const Compiled compiled = compile_graph(graph, options);
    const auto program = std::make_shared<const Program>(compiled.plan);
    const std::string where = fmt::format("{} on {}{}", network, target.name, steps_text(compiled.plan));
    EXPECT_TRUE(!sums_bytes || steps_text(compiled.plan).find(step) != std::string::npos) << where;
    EXPECT_EQ(run_guarded(program, inputs, want, Tolerance{0, 0}, 8), "") << where;
    EXPECT_EQ(check_padding(compiled, program, inputs), "") << where;
  }
}

constexpr Values kCodes{0, 255}, kMostCodes{0, 255, true};
constexpr Values kWeights{-128, 127}, kLeastWeights{127, -128, true}, kMostWeights{-128, 127, true};
constexpr Values kFewExtremes{-64, 64, false, 300};
constexpr Values kWide{-255, 255};  // not of i8

void multiply(int64_t m, int64_t k, int64_t n, int64_t zero, const Values& x, const Values& w) {
  expect_exact(fmt::format(R"(%y: i32[{},{}] = kilter::IntegerMatMul@1 "y"(%x, %w))", m, n), {m, k}, {k, n}, zero, x,
               w);
}

TEST(IntegerLayers, ProductsOfAnyDepth) {
  for (const int64_t k : {1, 2, 3, 4, 5, 6, 7, 8, 9, 31, 33, 66, 127}) {
    multiply(5, k, 19, 131, kCodes, kWeights);
    multiply(1, k, 3, 0, kCodes, kWeights);
  }
}

TEST(IntegerLayers, SumsBeyondExactF32Integers) {
  for (const int64_t zero : {0, 1, 128, 255}) {
    multiply(3, 1030, 17, zero, kMostCodes, kMostWeights);
    multiply(3, 1030, 17, zero, kMostCodes, kLeastWeights);
    multiply(2, 4001, 9, zero, kCodes, kWeights);
  }
}

TEST(IntegerLayers, WeightsWiderThanBytes) {
  multiply(4, 33, 21, 9, kCodes, kWide);
  multiply(4, 259, 21, 9, kMostCodes, {-255, 255, true});   // 258 products of 255 and 255 are below 2^24
  multiply(4, 1001, 21, 9, kMostCodes, {-255, 255, true});  // far above it
}

void convolve(const Shape& x, const Shape& w, std::string_view attrs, const Shape& y, int64_t zero, const Values& codes,
              const Values& weights) {
  const std::string type = text(TensorType{DType::i32, y, {}});
  expect_exact(fmt::format(R"(%y: {} = kilter::IntegerConv@1 "y" {{{}}}(%x, %w))", type, attrs), x, w, zero, codes,
               weights);
}

/// On targets that sum pairs of products in i16, steps with these weights are repeated.
TEST(IntegerLayers, FewPairsOfProductsThatOverflowI16) {
  const Tensor w = kFewExtremes.tensor(DType::f32, {64, 70}, "w");
  EXPECT_TRUE(few_saturate(w, 64, 70));
  EXPECT_FALSE(few_saturate(kWeights.tensor(DType::f32, {64, 70}, "w"), 64, 70));
  for (const int64_t zero : {0, 131}) {
    multiply(5, 64, 70, zero, kMostCodes, kFewExtremes);
    multiply(1, 1028, 33, zero, kMostCodes, kFewExtremes);
    convolve({1, 40, 6, 7}, {50, 40, 1, 1}, "strides=[1, 1]", {1, 50, 6, 7}, zero, kMostCodes, kFewExtremes);
    convolve({2, 24, 7, 6}, {40, 24, 3, 3}, "dilations=[2, 1], pads=[2, 1, 2, 1]", {2, 40, 7, 6}, zero, kMostCodes,
             kFewExtremes);
    convolve({1, 24, 6, 7}, {36, 6, 3, 3}, "group=4, pads=[1, 1, 1, 1]", {1, 36, 6, 7}, zero, kMostCodes, kFewExtremes);
  }
}

TEST(IntegerLayers, ConvolutionsPadWithTheZeroPoint) {
  for (const int64_t channels : {1, 3, 4, 7, 17, 33}) {
    convolve({1, channels, 7, 5}, {19, channels, 3, 3}, "pads=[1, 2, 1, 0]", {1, 19, 7, 5}, 131, kCodes, kWeights);
    convolve({2, channels, 5, 6}, {8, channels, 1, 1}, "strides=[2, 2]", {2, 8, 3, 3}, 131, kCodes, kWeights);
  }
  convolve({1, 9, 7, 5}, {19, 9, 3, 3}, "pads=[1, 2, 1, 0]", {1, 19, 7, 5}, 0, kCodes, kWeights);
}

TEST(IntegerLayers, GroupsAndDepthwiseConvolutions) {
  convolve({1, 33, 6, 7}, {33, 1, 3, 3}, "group=33, pads=[1, 1, 1, 1]", {1, 33, 6, 7}, 131, kCodes, kWeights);
  convolve({1, 32, 6, 7}, {32, 8, 3, 3}, "group=4, pads=[1, 1, 1, 1]", {1, 32, 6, 7}, 131, kCodes, kWeights);
  convolve({1, 12, 6, 7}, {6, 4, 2, 2}, "dilations=[2, 1], group=3", {1, 6, 4, 6}, 131, kCodes, kWeights);
}

/// Windows of four bytes: every width of kernel and image, with taps beyond the edges of a tile.
TEST(IntegerLayers, WindowsOfDepthwiseConvolutions) {
  for (const int64_t kernel : {1, 2, 3, 4, 5, 7}) {
    for (const int64_t stride : {1, 2, 3}) {
      for (const int64_t width : {1, 4, 33}) {
        const int64_t pad = kernel / 2, out = (width + 2 * pad - kernel) / stride + 1;
        convolve({1, 17, 3, width}, {17, 1, 1, kernel},
                 fmt::format("group=17, pads=[0, {0}, 0, {0}], strides=[1, {1}]", pad, stride), {1, 17, 3, out}, 131,
                 kCodes, kWeights);
      }
    }
  }
  convolve({2, 32, 9, 11}, {32, 1, 5, 5}, "group=32, pads=[2, 2, 2, 2]", {2, 32, 9, 11}, 7, kMostCodes, kMostWeights);
  convolve({1, 16, 9, 11}, {16, 1, 3, 3}, "dilations=[2, 1], group=16", {1, 16, 5, 9}, 7, kCodes, kWeights);
}

TEST(IntegerLayers, ConvolutionSumsBeyondExactF32Integers) {
  for (const int64_t zero : {0, 131}) {
    convolve({1, 130, 4, 4}, {17, 130, 3, 3}, "pads=[1, 1, 1, 1]", {1, 17, 4, 4}, zero, kMostCodes, kMostWeights);
    convolve({1, 130, 4, 4}, {17, 130, 3, 3}, "pads=[1, 1, 1, 1]", {1, 17, 4, 4}, zero, kMostCodes, kLeastWeights);
    convolve({1, 130, 4, 4}, {17, 130, 3, 3}, "pads=[1, 1, 1, 1]", {1, 17, 4, 4}, zero, kMostCodes, {-255, 255, true});
  }
}

/// The values between layers are also bytes, with different zeros, in blocks with unused lanes and halos.
TEST(IntegerLayers, ChainsOfLayersStoreBytes) {
  for (const int64_t zero : {0, 131}) {
    expect_exact(R"(const %f: f64[](0.0009765625)
    const %c: f64[](0)
    %s: i32[1,19,7,6] = kilter::IntegerConv@1 "s" {pads=[1, 1, 1, 1]}(%x, %w)
    %r: f32[1,19,7,6] = kilter::RoundedSum@1 "r" {high=100, low=-100}(%s, %f, %c)
    %p: f32[1,19,4,3] = MaxPool@12 "p" {kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2]}(%r)
    %a: f32[1,19,7,6] = AveragePool@11 "a" {count_include_pad=1, kernel_shape=[3, 3], pads=[1, 1, 1, 1]}(%r)
    %t: i32[1,19,4,3] = kilter::IntegerConv@1 "t" {pads=[1, 1, 1, 1]}(%p, %w)
    %y: f32[1,19,4,3] = kilter::RoundedSum@1 "y" {high=255, low=0}(%t, %f, %p, %f, %c)
    output "a" %a)",
                 {1, 19, 7, 6}, {19, 19, 3, 3}, zero, kCodes, kWeights);
  }
}

/// A convolution and the depthwise convolution after it run in one kernel, with bytes between them.
TEST(IntegerLayers, DepthwiseConvolutionsAfterConvolutions) {
  for (const auto& [stride, height, width] : {std::array{1, 12, 30}, std::array{2, 6, 15}}) {
    expect_exact(fmt::format(R"(const %d: f32[40,1,3,3]#d
    const %f: f64[](0.0078125)
    const %c: f64[](0)
    %s: i32[1,40,12,30] = kilter::IntegerConv@1 "s"(%x, %w)
    %r: f32[1,40,12,30] = kilter::RoundedSum@1 "r" {{high=100, low=-90}}(%s, %f, %c)
    %t: i32[1,40,{1},{2}] = kilter::IntegerConv@1 "t" {{group=40, pads=[1, 1, 1, 1], strides=[{0}, {0}]}}(%r, %d)
    %y: f32[1,40,{1},{2}] = kilter::RoundedSum@1 "y" {{high=255, low=0}}(%t, %f, %c))",
                             stride, height, width),
                 {1, 16, 12, 30}, {40, 16, 1, 1}, 131, kCodes, kWeights, {{"d", {40, 1, 3, 3}}}, "t",
                 "conv2d_then_depthwise");
  }
}

/// Signals run as images of one row, with bytes between the layers.
TEST(IntegerLayers, ConvolutionsOfSignals) {
  expect_exact(R"(const %d: f32[24,24,5]#d
    const %f: f64[](0.0078125)
    %s: i32[2,24,50] = kilter::IntegerConv@1 "s" {pads=[1, 1]}(%x, %w)
    %r: f32[2,24,50] = kilter::RoundedSum@1 "r" {high=100, low=-90}(%s, %f, %f)
    %t: i32[2,24,25] = kilter::IntegerConv@1 "t" {pads=[2, 2], strides=[2]}(%r, %d)
    %y: f32[2,24,25] = kilter::RoundedSum@1 "y" {high=255, low=0}(%t, %f, %f))",
               {2, 16, 50}, {24, 16, 3}, 131, kCodes, kWeights, {{"d", {24, 24, 5}}}, "",
               "step t (IntegerConv+RoundedSum): conv2d_direct");
}

/// An image of three channels becomes words of four bytes in one step with the rounding of its pixels.
TEST(IntegerLayers, PixelsArePackedIntoWordsOfBytes) {
  for (const int64_t width : {5, 16, 37}) {
    expect_exact(fmt::format(R"(const %step: f32[](3)
    const %unit: f64[](1)
    const %none: f64[](0)
    %h: f32[2,3,6,{0}] = Div@14 "h"(%x, %step)
    %r: f32[2,3,6,{0}] = kilter::RoundedSum@1 "r" {{high=43, low=-30}}(%h, %unit, %none)
    %y: i32[2,9,6,{0}] = kilter::IntegerConv@1 "y" {{pads=[1, 1, 1, 1]}}(%r, %w))",
                             width),
                 {2, 3, 6, width}, {9, 3, 3, 3}, 100, kCodes, kWeights, {}, "", "Relayout+Dequantize+Div+RoundedSum");
  }
}

}  // namespace
}  // namespace kilter
