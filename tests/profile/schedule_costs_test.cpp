// Costs of schedules relative to the default: measured in pairs, in the requested order, infinite if a schedule cannot
// be used.
#include "profile/schedule_costs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"

namespace kilter::profile {
namespace {

const std::string kProblem = "conv2d n1 c64 h28 w28 k64 r3 s3 stride2,2 pad1 f32 +bias";

TEST(ScheduleCosts, AreRatiosToTheDefaultInOrder) {
  CostOptions how;
  how.target = parse_target("native");
  how.batch = 2;  // the default is measured in each of two batches
  how.rounds = 6;
  const std::vector<Schedule> schedules{
      parse_schedule("conv2d_direct vectors=1 rows=1 tile=1 prefetch=0"),  // a chain of dependent sums: far slower
      parse_schedule("conv2d_direct vectors=77 rows=1 tile=1 prefetch=0"),
      parse_schedule("conv2d_direct vectors=2 rows=1 tile=2 prefetch=0"),
  };
  std::vector<size_t> done;
  const auto costs = schedule_costs(kProblem, schedules, how, [&](size_t n) { done.push_back(n); });
  ASSERT_EQ(costs.size(), 3U);
  EXPECT_EQ(done, (std::vector<size_t>{2, 3}));
  EXPECT_GT(costs[0].cost, 1.5);
  EXPECT_TRUE(std::isinf(costs[1].cost));
  EXPECT_LT(costs[2].cost, costs[0].cost);
  for (const size_t i : {0, 2}) {
    EXPECT_TRUE(std::isfinite(costs[i].cost));
    EXPECT_GT(costs[i].measure_ms, 0);
    EXPECT_GT(costs[i].compile_ms, 0);
  }
  EXPECT_EQ(costs[1].measure_ms, 0);
}

TEST(ScheduleCosts, BadProblemsAreErrors) {
  CostOptions how;
  how.target = parse_target("native");
  EXPECT_THROW(schedule_costs("convv2d n1", {}, how), Error);
}

}  // namespace
}  // namespace kilter::profile
