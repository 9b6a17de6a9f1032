#include "base/convert.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace kilter {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(Saturate, TruncatesTowardZero) {
  EXPECT_EQ(saturate<int32_t>(2.9), 2);
  EXPECT_EQ(saturate<int32_t>(-2.9), -2);
  EXPECT_EQ(saturate<uint8_t>(-0.9), 0);
}

TEST(Saturate, StopsAtTheEndsOfTheType) {
  EXPECT_EQ(saturate<int8_t>(127.9), 127);
  EXPECT_EQ(saturate<int8_t>(128), 127);
  EXPECT_EQ(saturate<int8_t>(-129), -128);
  EXPECT_EQ(saturate<uint16_t>(-1), 0);
  EXPECT_EQ(saturate<int64_t>(9223372036854775808.0), INT64_MAX);
  EXPECT_EQ(saturate<int64_t>(9223372036854774784.0), 9223372036854774784);
  EXPECT_EQ(saturate<uint64_t>(18446744073709551616.0), UINT64_MAX);
  EXPECT_EQ(saturate<int64_t>(-kInfinity), INT64_MIN);
  EXPECT_EQ(saturate<uint64_t>(kInfinity), UINT64_MAX);
}

TEST(Saturate, NanIsZero) { EXPECT_EQ(saturate<int32_t>(std::nan("")), 0); }

TEST(Convert, RoundsToHalfOnce) {
  // In f16, 2049 is a tie between 2048 and 2050. The added 1e-9 is lost in f32, so rounding to f32 first
  // would give 2048.
  EXPECT_EQ(static_cast<float>(convert<Half>(2049.0 + 1e-9)), 2050.0F);
  EXPECT_EQ(static_cast<float>(convert<Half>(2049.0)), 2048.0F);
}

TEST(Convert, IntegersWrapAndBoolIsNotZero) {
  EXPECT_EQ(convert<int8_t>(int32_t{300}), 44);
  EXPECT_TRUE(convert<bool>(0.5));
  EXPECT_FALSE(convert<bool>(0));
  EXPECT_TRUE(convert<bool>(Half(1.0F)));
}

}  // namespace
}  // namespace kilter
