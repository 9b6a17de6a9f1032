// Times that a worker's kernels may have overwritten are never believed.
#include "tune/run/time_log.h"

#include <gtest/gtest.h>

#include <limits>

namespace kilter::tune {
namespace {

const std::map<VariantId, size_t> kSteps = {{1, 2}, {4, 1}};

LapHeader header(int64_t variant, int64_t round, int64_t order) {
  LapHeader h;
  h.variant = variant, h.steps = static_cast<int64_t>(kSteps.at(variant));
  h.round = round, h.order = order, h.total_ms = 3;
  return h;
}

class TimeLog : public testing::Test {
 protected:
  void SetUp() override {
    request_.first_round = 2, request_.rounds = 3, request_.first_order = 10;
    add(header(1, 2, 10));
    add(header(4, 4, 11));
  }
  void add(const LapHeader& h) {
    headers_.push_back(log_.bytes().size());
    log_.put(h);
    for (int64_t s = 0; s < h.steps; ++s) log_.put(StepTimes{1.0 + static_cast<double>(s), 0.5, 7});
  }
  /// Whether the log is refused with some bytes replaced.
  template <class T>
  bool refused(size_t offset, T value) const {
    std::string bytes = log_.bytes();
    std::memcpy(bytes.data() + offset, &value, sizeof value);
    return !read(bytes);
  }
  std::optional<std::vector<LoggedLap>> read(const std::string& bytes) const {
    return read_laps(std::as_bytes(std::span(bytes)), kSteps, request_);
  }
  Pack log_;
  std::vector<size_t> headers_;
  RoundsRequest request_;
};

TEST_F(TimeLog, LapsAreReadInOrder) {
  const auto laps = read(log_.bytes());
  ASSERT_TRUE(laps);
  ASSERT_EQ(laps->size(), 2U);
  EXPECT_EQ((*laps)[0].variant, 1);
  EXPECT_EQ((*laps)[0].lap.step_ms, (std::vector<double>{1, 2}));
  EXPECT_EQ((*laps)[1].variant, 4);
  EXPECT_EQ((*laps)[1].lap.round, 4);
  EXPECT_EQ((*laps)[1].lap.width, std::vector<double>{7});
  EXPECT_TRUE(read(""));
}

TEST_F(TimeLog, TruncatedRecordsAreRefused) {
  const std::string& bytes = log_.bytes();
  for (size_t size = 1; size < bytes.size(); ++size) {
    EXPECT_EQ(read(bytes.substr(0, size)).has_value(), size == headers_[1]) << size;
  }
}

TEST_F(TimeLog, InvalidRecordsAreRefused) {
  constexpr auto kMost = std::numeric_limits<int64_t>::max();
  for (const size_t at : headers_) {
    for (const int64_t value : {int64_t{-1}, int64_t{3}, kMost, std::numeric_limits<int64_t>::min()}) {
      EXPECT_TRUE(refused(at + offsetof(LapHeader, variant), value)) << value;
      EXPECT_TRUE(refused(at + offsetof(LapHeader, steps), value)) << value;
      EXPECT_TRUE(refused(at + offsetof(LapHeader, order), value)) << value;
    }
    for (const int64_t round : {int64_t{-1}, int64_t{1}, int64_t{5}, kMost}) {
      EXPECT_TRUE(refused(at + offsetof(LapHeader, round), round)) << round;
    }
    EXPECT_TRUE(refused(at + offsetof(LapHeader, total_ms), std::numeric_limits<double>::quiet_NaN()));
    EXPECT_TRUE(refused(at + offsetof(LapHeader, total_ms), -1.0));
    EXPECT_TRUE(refused(at + sizeof(LapHeader), std::numeric_limits<double>::infinity()));
  }
}

}  // namespace
}  // namespace kilter::tune
