#include "quantize/scale.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"

namespace kilter::quantize {
namespace {

using testing::ElementsAre;

Tensor floats(Shape shape, std::initializer_list<float> values) { return Tensor::of<float>(std::move(shape), values); }

/// The number that an integer represents.
double represented(int32_t q, const Affine& a) {
  return static_cast<double>(q - a.zero) * static_cast<double>(a.scale);
}

TEST(Range, CollectsEnds) {
  Range range;
  EXPECT_TRUE(range.empty());
  range.add(floats({3}, {1, -2, 5}).span<float>());
  range.add(floats({1}, {7}).span<float>());
  EXPECT_EQ(range.low, -2);
  EXPECT_EQ(range.high, 7);
}

TEST(ActivationAffine, CoversTheRangeAndZeroExactly) {
  const Range ranges[] = {{-1, 1},      {-0.3, 2.7},   {0, 6}, {2, 6},  {-5, -2},
                          {-1e-3, 1e3}, {-3e38, 3e38}, {3, 3}, {-3, -3}};
  for (const Range& range : ranges) {
    for (const DType type : {DType::u8, DType::i8}) {
      const Affine made = activation_affine(range, type);
      const Levels limits = levels(type);
      ASSERT_GE(made.zero, limits.low);
      ASSERT_LE(made.zero, limits.high);
      const auto half = static_cast<double>(made.scale) * 0.51;
      EXPECT_LE(represented(limits.low, made), std::min(range.low, 0.0) + half);
      EXPECT_GE(represented(limits.high, made), std::max(range.high, 0.0) - half);
    }
  }
}

TEST(ActivationAffine, RangesOfOneSignHaveZeroAtAnEnd) {
  EXPECT_EQ(activation_affine({0, 6}, DType::u8).zero, 0);
  EXPECT_EQ(activation_affine({2, 6}, DType::u8).zero, 0) << "the range is widened to contain 0";
  EXPECT_EQ(activation_affine({0, 6}, DType::i8).zero, -128);
  EXPECT_EQ(activation_affine({-5, -2}, DType::u8).zero, 255);
  EXPECT_EQ(activation_affine({-5, -2}, DType::i8).zero, 127);
  EXPECT_FLOAT_EQ(activation_affine({-5, -2}, DType::u8).scale, 5.0F / 255);
}

TEST(ActivationAffine, NothingButZero) {
  for (const Range& range : {Range{0, 0}, Range{}}) {
    EXPECT_EQ(activation_affine(range, DType::u8).scale, 1);
    EXPECT_EQ(activation_affine(range, DType::u8).zero, 0);
    EXPECT_EQ(activation_affine(range, DType::i8).zero, 0);
  }
}

TEST(ActivationAffine, TinyRangesKeepANormalScale) {
  const Affine made = activation_affine({0, 1e-44}, DType::u8);
  EXPECT_EQ(made.scale, std::numeric_limits<float>::min());
  EXPECT_EQ(made.zero, 0);
}

TEST(ActivationAffine, RefusesInfinity) { EXPECT_THROW(activation_affine({0, INFINITY}, DType::u8), Error); }

TEST(Weights, RoundTiesToEven) {
  const QuantisedWeights made = quantise_weights(floats({5}, {127, 0.5, 1.5, 2.5, -1.5}), std::nullopt, DType::i8);
  EXPECT_THAT(made.values.span<int8_t>(), ElementsAre(127, 0, 2, 2, -2));
}

TEST(Weights, AreSymmetric) {
  const QuantisedWeights made = quantise_weights(floats({4}, {-2, 0, 1, 2}), std::nullopt, DType::i8);
  EXPECT_THAT(made.values.span<int8_t>(), ElementsAre(-127, 0, 64, 127));
  EXPECT_THAT(made.scales, ElementsAre(2.0F / 127));
  EXPECT_EQ(made.zero, 0);
}

TEST(Weights, OfU8AreShifted) {
  const QuantisedWeights made = quantise_weights(floats({4}, {-2, 0, 1, 2}), std::nullopt, DType::u8);
  EXPECT_THAT(made.values.span<uint8_t>(), ElementsAre(1, 128, 192, 255));
  EXPECT_EQ(made.zero, 128);
}

TEST(Weights, HaveAScaleForEachIndexOfAnAxis) {
  const Tensor w = floats({2, 3}, {127, 0, -1, 12.7F, 1, 0});
  const QuantisedWeights rows = quantise_weights(w, 0, DType::i8);
  EXPECT_THAT(rows.scales, ElementsAre(1, testing::FloatEq(0.1F)));
  EXPECT_THAT(rows.values.span<int8_t>(), ElementsAre(127, 0, -1, 127, 10, 0));
  const QuantisedWeights columns = quantise_weights(w, 1, DType::i8);
  EXPECT_THAT(columns.scales, ElementsAre(1, 1.0F / 127, 1.0F / 127));
  EXPECT_THAT(columns.values.span<int8_t>(), ElementsAre(127, 0, -127, 13, 127, 0));
}

TEST(Weights, OfZeros) {
  const QuantisedWeights made = quantise_weights(floats({2, 2}, {0, 0, 3, 0}), 0, DType::i8);
  EXPECT_THAT(made.scales, ElementsAre(1, 3.0F / 127));
  EXPECT_THAT(made.values.span<int8_t>(), ElementsAre(0, 0, 127, 0));
}

/// Without a least scale, a channel with tiny weights would have a bias beyond 32 bits.
TEST(Bias, FitsInIntegers) {
  const Tensor bias = floats({2}, {1, -0.5});
  const float input = 0.01F;
  const Tensor w = floats({2, 1}, {1e-12F, 0.3F});
  const std::vector<float> least = least_scales(bias, input, 2);
  const QuantisedWeights made = quantise_weights(w, 0, DType::i8, least);
  EXPECT_FLOAT_EQ(made.scales[1], 0.3F / 127) << "a scale that is large enough stays";
  const Tensor q = quantise_bias(bias, input, made.scales);
  for (int64_t c = 0; c < 2; ++c) {
    const auto back = static_cast<double>(q.data<int32_t>()[c]) * static_cast<double>(input * made.scales[c]);
    EXPECT_NEAR(back, bias.as_double(c), 1e-4 * std::abs(bias.as_double(c)));
  }
  EXPECT_LE(std::abs(q.data<int32_t>()[0]), 1 << 30);
}

TEST(Bias, OfOneScaleForAll) {
  const Tensor bias = floats({2}, {1, -0.5});
  EXPECT_THAT(quantise_bias(bias, 0.5F, std::vector<float>{0.25F}).span<int32_t>(), ElementsAre(8, -4));
  EXPECT_EQ(least_scales(bias, 0.5F, 1).size(), 1U);
}

}  // namespace
}  // namespace kilter::quantize
