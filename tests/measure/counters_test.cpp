#include "measure/counters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "base/ticks.h"

namespace kilter {
namespace {

using testing::HasSubstr;

CounterValues values(int64_t cycles, int64_t instructions, int64_t stalled = 0) {
  CounterValues v;
  v.cycles = cycles, v.instructions = instructions, v.cache_misses = 10, v.stalled_cycles = stalled;
  return v;
}

TEST(Counters, PossibleCountsAreValid) {
  // 1 ms at 4 GHz on 2 threads is 8 million cycles.
  EXPECT_EQ(check_counters(values(7'900'000, 20'000'000, 3'000'000), 1, 4, 2).invalid, "");
  EXPECT_EQ(check_counters(CounterValues{}, 1, 4, 2).invalid, "");
}

TEST(Counters, MoreCyclesThanTheClockAllowsAreInvalid) {
  EXPECT_EQ(check_counters(values(9'000'000, 1), 1, 4, 2).invalid,
            "9000000 cycles, but 1.000 ms at 4.00 GHz on 2 threads allow at most 8160000");
  EXPECT_EQ(check_counters(values(9'000'000, 1), 1, 0, 2).invalid, "") << "an unknown clock allows any number";
}

TEST(Counters, OtherImpossibleCountsAreInvalid) {
  EXPECT_EQ(check_counters(values(1000, 100'000), 1, 4, 1).invalid, "100000 instructions in 1000 cycles");
  EXPECT_EQ(check_counters(values(1000, 1000, 2000), 1, 4, 1).invalid, "2000 stalled cycles of 1000");
  EXPECT_EQ(check_counters(values(-5, 1000), 1, 4, 1).invalid, "a count is negative");
  CounterValues part = values(1000, 1000);
  part.counted_share = 0.25;
  EXPECT_EQ(check_counters(part, 1, 4, 1).invalid, "counted for only 25 % of the time");
}

TEST(Counters, DifferencesAndSumsKeepCommonCounters) {
  CounterValues a = values(100, 200);
  CounterValues b = values(150, 260);
  b.stalled_cycles.reset();
  const CounterValues d = difference(a, b);
  EXPECT_EQ(d.cycles, 50);
  EXPECT_EQ(d.instructions, 60);
  EXPECT_EQ(d.cache_misses, 0);
  EXPECT_FALSE(d.stalled_cycles.has_value());
  EXPECT_EQ(sum(a, b).cycles, 250);
}

TEST(Counters, ReasonsSayWhatToDo) {
  EXPECT_THAT(counters_reason(ENOENT, 2), HasSubstr("this machine offers none"));
  EXPECT_EQ(counters_reason(EACCES, 4),
            "no hardware counters: not allowed (kernel.perf_event_paranoid is 4, or a container forbids the call); to "
            "allow it, run `sysctl kernel.perf_event_paranoid=2` (or less) as root");
  EXPECT_THAT(counters_reason(EPERM, std::nullopt), HasSubstr("perf_event_paranoid is unknown"));
  EXPECT_THAT(counters_reason(ENOSYS, 2), HasSubstr("this kernel has no perf_event_open"));
  EXPECT_THAT(counters_reason(EMFILE, 2), HasSubstr("ulimit -n"));
  EXPECT_THAT(counters_reason(EINVAL, 2), HasSubstr("perf_event_open failed: "));
}

// On a machine with hardware counters, they count; on one without, why_not() gives the reason in one line.
TEST(Counters, OfThisMachine) {
  const Counters counters;
  const CounterValues before = counters.read();
  const uint64_t start = ticks();
  volatile unsigned sink = 0;
  for (unsigned i = 0; i < 1000000; ++i) sink = sink + i;
  const double ms = ms_between(start, ticks());
  const CounterValues during = check_counters(difference(before, counters.read()), ms, highest_clock_ghz(), 1);
  if (!counters.available()) {
    EXPECT_THAT(counters.why_not(), testing::StartsWith("no hardware counters: "));
    EXPECT_EQ(counters.why_not().find('\n'), std::string::npos);
    EXPECT_FALSE(during.cycles.has_value());
    return;
  }
  EXPECT_TRUE(counters.why_not().empty());
  ASSERT_TRUE(during.instructions.has_value());
  EXPECT_GE(*during.instructions, 2'000'000);
}

TEST(Counters, HighestClockIsPlausible) {
#if defined(__x86_64__)
  EXPECT_GT(highest_clock_ghz(), 0.5);
  EXPECT_LT(highest_clock_ghz(), 10);
#endif
}

}  // namespace
}  // namespace kilter
