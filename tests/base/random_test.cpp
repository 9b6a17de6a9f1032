#include "base/random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace kilter {
namespace {

TEST(Random, NumberIsAFunctionOfSeedAndIndex) {
  const Random a(7);
  const Random b(7);
  std::vector<float> filled(101);
  a.fill_normal(filled, 2, 5);
  for (size_t i = 0; i < filled.size(); ++i) EXPECT_EQ(filled[i], b.normal(5 + i) * 2) << i;
  a.fill_uniform(filled, -3, 4, 9);
  for (size_t i = 0; i < filled.size(); ++i) EXPECT_EQ(filled[i], b.uniform(9 + i, -3, 4)) << i;
  EXPECT_NE(Random(7).bits(0), Random(8).bits(0));
  EXPECT_NE(Random(7, "x").bits(0), Random(7, "y").bits(0));
}

TEST(Random, NormalNumbersHaveTheMomentsOfN01) {
  const Random random(1);
  constexpr int64_t kCount = 200000;
  double sum = 0;
  double squares = 0;
  double cubes = 0;
  double fourth = 0;
  double neighbours = 0;
  int64_t within_one = 0;
  for (int64_t i = 0; i < kCount; ++i) {
    const double x = random.normal(static_cast<uint64_t>(i));
    sum += x;
    squares += x * x;
    cubes += x * x * x;
    fourth += x * x * x * x;
    neighbours += x * static_cast<double>(random.normal(static_cast<uint64_t>(i) + 1));
    within_one += std::abs(x) < 1 ? 1 : 0;
  }
  EXPECT_NEAR(sum / kCount, 0, 0.01);
  EXPECT_NEAR(squares / kCount, 1, 0.015);
  EXPECT_NEAR(cubes / kCount, 0, 0.04);
  EXPECT_NEAR(fourth / kCount, 3, 0.08);
  EXPECT_NEAR(neighbours / kCount, 0, 0.01);
  EXPECT_NEAR(static_cast<double>(within_one) / kCount, 0.6827, 0.005);
}

TEST(Random, IntegersCoverTheRangeEvenly) {
  const Random random(2);
  std::vector<int> counts(100);
  for (uint64_t i = 0; i < 100000; ++i) {
    const int64_t value = random.integer(i, 0, 99);
    ASSERT_GE(value, 0);
    ASSERT_LE(value, 99);
    ++counts[static_cast<size_t>(value)];
  }
  for (int count : counts) EXPECT_NEAR(count, 1000, 170);
  EXPECT_EQ(random.integer(0, -5, -5), -5);
  for (uint64_t i = 0; i < 100; ++i) EXPECT_LT(random.integer(i, INT64_MIN, -1), 0);
}

TEST(Random, UniformIsInItsRange) {
  const Random random(3);
  double sum = 0;
  for (uint64_t i = 0; i < 100000; ++i) {
    const float x = random.uniform(i);
    ASSERT_GE(x, 0);
    ASSERT_LT(x, 1);
    sum += static_cast<double>(x);
  }
  EXPECT_NEAR(sum / 100000, 0.5, 0.005);
}

TEST(Random, BitsArePinned) {
  // The weights of the built-in networks are derived from these numbers: if these change, all weights change.
  EXPECT_EQ(Random(0).bits(0), 0xa706dd2f4d197e6fULL);
  EXPECT_EQ(Random(0).normal(0), -0x1.6a61cp-1F);
  EXPECT_EQ(Random(0).normal(1), -0x1.491dbp-1F);
}

}  // namespace
}  // namespace kilter
