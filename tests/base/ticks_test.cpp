#include "base/ticks.h"

#include <gtest/gtest.h>
#include <time.h>

#include <cmath>
#include <thread>

namespace kilter {
namespace {

double raw_ms() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC_RAW, &t);
  return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_nsec) * 1e-6;
}

TEST(Ticks, NeverRunBackwards) {
  uint64_t last = ticks();
  for (int i = 0; i < 100000; ++i) {
    const uint64_t now = ticks();
    ASSERT_GE(now, last);
    last = now;
  }
}

TEST(Ticks, SourceIsNamed) { EXPECT_TRUE(tick_source() == "tsc" || tick_source() == "monotonic") << tick_source(); }

TEST(Ticks, BetweenIsSigned) {
  EXPECT_DOUBLE_EQ(ms_between(5, 5), 0);
  EXPECT_DOUBLE_EQ(ms_between(1000, 0), -ms_between(0, 1000));
}

// The two clocks cannot be read at the same time, and a busy machine may stop the test between the readings, so the
// best of 20 tries counts. A wrong calibration fails all of them.
TEST(Ticks, CalibrationAgreesWithTheRawMonotonicClock) {
  double best = 1;
  for (int attempt = 0; attempt < 20 && best > 1e-4; ++attempt) {
    const uint64_t from = ticks();
    const double raw_from = raw_ms();
    std::this_thread::sleep_for(std::chrono::milliseconds(40));
    const uint64_t to = ticks();
    const double raw_to = raw_ms();
    best = std::min(best, std::abs(ms_between(from, to) / (raw_to - raw_from) - 1));
  }
  EXPECT_LE(best, 1e-4);
}

}  // namespace
}  // namespace kilter
