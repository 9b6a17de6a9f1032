#include "quantize/histogram.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace kilter::quantize {
namespace {

std::vector<float> normal(size_t count, float mean, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> of(mean, 1);
  std::vector<float> made(count);
  for (float& v : made) v = of(random);
  return made;
}

Histogram of(const std::vector<float>& values) {
  Range range;
  range.add(values);
  Histogram made(range);
  made.add(values);
  return made;
}

TEST(Percentile, LeavesOutOutliersAtBothEnds) {
  std::vector<float> values = normal(100000, 0, 1);
  values.push_back(1000);
  const Range all = of(values).percentile(100), most = of(values).percentile(99.9);
  const double bin = (1000 + 5) / 4096.0;
  EXPECT_NEAR(all.high, 1000, bin);
  EXPECT_LT(all.low, -3);
  EXPECT_NEAR(most.high, 3.29, 2 * bin) << "0.05 % of a normal distribution are beyond 3.29";
  EXPECT_NEAR(most.low, -3.29, 2 * bin);
}

TEST(Percentile, CountsZeros) {
  std::vector<float> values(999, 0);
  values.push_back(8);
  EXPECT_EQ(of(values).percentile(99).high, 0) << "one value in 1000 is within the 0.5 % at the upper end";
  EXPECT_NEAR(of(values).percentile(99.9).high, 8, 0.01);
}

TEST(Percentile, ContainsZero) {
  const Range positive = of(normal(1000, 100, 2)).percentile(99);
  EXPECT_EQ(positive.low, 0);
  EXPECT_GT(positive.high, 101);
  const Range negative = of(normal(1000, -100, 3)).percentile(99);
  EXPECT_EQ(negative.high, 0);
  EXPECT_LT(negative.low, -101);
}

TEST(Histogram, OfOneValueAndOfZeros) {
  EXPECT_EQ(of({0, 0}).entropy().high, 0);
  EXPECT_EQ(of({0, 0}).percentile(50).high, 0);
  const Range one = of({3, 3, 3}).entropy();
  EXPECT_EQ(one.low, 0);
  EXPECT_NEAR(one.high, 3, 0.01);
  const Range negative = of({-3, -3}).entropy();
  EXPECT_NEAR(negative.low, -3, 0.01);
  EXPECT_EQ(negative.high, 0);
}

TEST(Entropy, CutsALongTail) {
  std::vector<float> values = normal(100000, 0, 4);
  for (int i = 0; i < 5; ++i) values.push_back(60);
  const Range range = of(values).entropy();
  EXPECT_LT(range.high, 15);
  EXPECT_GT(range.high, 3);
}

TEST(Entropy, KeepsAnEvenDistribution) {
  std::vector<float> values;
  for (int i = 1; i <= 100000; ++i) values.push_back(static_cast<float>(i) * 1e-5F);
  EXPECT_NEAR(of(values).entropy().high, 1, 0.01);
}

/// Four bins are shown in two levels of two bins each. All four bins lose nothing, because the bins of each level have
/// equal counts. If the last bin is cut, its counts go to the third bin, and two levels cannot show the result exactly.
TEST(Entropy, MatchesHandComputedExample) {
  const std::vector<double> even = {5, 5, 2, 2}, tail = {8, 8, 8, 0};
  EXPECT_EQ(least_divergence(even, 2), 4U);
  EXPECT_EQ(least_divergence(tail, 3), 4U) << "levels of 1, 1 and 2 bins lose nothing, and of equals the most bins win";
}

}  // namespace
}  // namespace kilter::quantize
