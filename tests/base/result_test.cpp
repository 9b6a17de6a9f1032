#include "base/result.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "error_of.h"

namespace kilter {
namespace {

Result<std::string> half(int64_t n) {
  if (n % 2 != 0) return Rejected{"number", "even", std::to_string(n)};
  return std::to_string(n / 2);
}

TEST(Result, HoldsAValue) {
  const auto result = half(6);
  ASSERT_TRUE(result);
  EXPECT_EQ(*result, "3");
  EXPECT_EQ(result->size(), 1U);
}

TEST(Result, HoldsAReason) {
  const auto result = half(7);
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.rejected().text(), "number: limit even, got 7");
}

TEST(Result, MoveOnlyValuesAreMoved) {
  Result<std::unique_ptr<int>> result(std::make_unique<int>(5));
  const std::unique_ptr<int> taken = *std::move(result);
  EXPECT_EQ(*taken, 5);
}

TEST(Result, ReadingAnAbsentValueIsAnInternalError) {
  constexpr std::string_view kRejected = "the value of a rejected result was requested: number: limit even, got 7";
  EXPECT_EQ(error_of([] { (void)*half(7); }, ErrorKind::internal), kRejected);
  EXPECT_EQ(error_of([] { (void)half(7)->size(); }, ErrorKind::internal), kRejected);
  EXPECT_EQ(error_of([] { (void)half(6).rejected(); }, ErrorKind::internal),
            "the reason for a rejection was requested, but the result has a value");
}

}  // namespace
}  // namespace kilter
