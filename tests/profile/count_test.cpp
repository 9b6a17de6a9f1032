// Tests hardware counters by layer, or the line that says why there are none.
#include "profile/count.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "network.h"

namespace kilter::profile {
namespace {

TEST(Count, EveryStepIsCountedOrTheReasonIsGiven) {
  TestNetwork net("zoo:squeezenet1_1", 2);
  const StepCounters counted = count_steps(net.instance(), net.plan(), net.from, net.to, 3);
  if (counted.steps.empty()) {
    EXPECT_THAT(counted.why_not, testing::StartsWith("no hardware counters: "));
    EXPECT_EQ(counted.why_not.find('\n'), std::string::npos);
    return;
  }
  EXPECT_TRUE(counted.why_not.empty());
  ASSERT_EQ(counted.steps.size(), net.plan().steps.size());
  for (size_t i = 0; i < counted.steps.size(); ++i) {
    if (net.plan().steps[i].flops < 1'000'000 || !counted.steps[i].instructions) continue;
    EXPECT_GT(*counted.steps[i].instructions, net.plan().steps[i].flops / 64) << net.plan().steps[i].name;
  }
}

TEST(Count, CountPerRunIsTheSumDividedByTheRuns) {
  CounterValues sum;
  sum.cycles = 100;
  sum.instructions = 250;
  const CounterValues one = per_run(sum, 10);
  EXPECT_EQ(one.cycles, 10);
  EXPECT_EQ(one.instructions, 25);
  EXPECT_FALSE(one.cache_misses.has_value());
}

}  // namespace
}  // namespace kilter::profile
