#include "base/align.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

namespace kilter {
namespace {

TEST(Align, PartsAndMultiplesRoundUp) {
  EXPECT_EQ(ceil_div(int64_t{0}, 4), 0);
  EXPECT_EQ(ceil_div(int64_t{1}, 4), 1);
  EXPECT_EQ(ceil_div(int64_t{4}, 4), 1);
  EXPECT_EQ(ceil_div(int64_t{5}, 4), 2);
  EXPECT_EQ(round_up(int64_t{5}, 4), 8);
  EXPECT_EQ(round_up(size_t{64}, 64), 64U);
}

TEST(Align, LargestIntegerDoesNotOverflow) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(ceil_div(int64_t{33}, kMost), 1);
  EXPECT_EQ(ceil_div(kMost, kMost), 1);
  EXPECT_EQ(ceil_div(kMost, 2), kMost / 2 + 1);
}

}  // namespace
}  // namespace kilter
