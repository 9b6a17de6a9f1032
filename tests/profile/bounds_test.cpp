// The memory bound of a step that reads packed weights, depending on how much memory a run of the network touches.
#include "profile/bounds.h"

#include <gtest/gtest.h>

namespace kilter::profile {
namespace {

constexpr int64_t kMiB = 1 << 20;
const Peaks kPeaks{{100}, {50}, {30}, {10}, {0}, kMiB, 32 * kMiB};

Bound bound(int64_t touched, int threads = 1) {
  Step step;
  step.ops = "Gemm", step.bytes = kMiB;
  BufferRef weights;
  weights.space = Space::constant, weights.bytes = kMiB;
  step.args = {weights};
  return memory_bound_of(step, {kMiB, touched}, kPeaks, threads);
}

/// Returns the milliseconds for reading one MiB of which these shares come from L2, L3 and memory.
double ms(double l2, double l3, double dram) { return 1e-6 * kMiB * (l2 / 50 + l3 / 30 + dram / 10); }

TEST(Bounds, EachCacheKeepsItsPartOfTheWeights) {
  EXPECT_NEAR(bound(kMiB).ms, ms(1, 0, 0), 1e-12);
  EXPECT_NEAR(bound(2 * kMiB).ms, ms(0.5, 0.5, 0), 1e-12);
  EXPECT_NEAR(bound(4 * kMiB).ms, ms(0.25, 0.75, 0), 1e-12);
  EXPECT_NEAR(bound(64 * kMiB).ms, ms(1.0 / 64, 31.0 / 64, 0.5), 1e-12);
  EXPECT_NEAR(bound(1024 * kMiB).ms, ms(1.0 / 1024, 31.0 / 1024, 1 - 32.0 / 1024), 1e-12);
}

TEST(Bounds, LevelIsWhereMostWeightsComeFrom) {
  EXPECT_EQ(bound(kMiB).level, "L2");
  EXPECT_EQ(bound(4 * kMiB).level, "L3");
  EXPECT_EQ(bound(64 * kMiB).level, "L3");
  EXPECT_EQ(bound(65 * kMiB).level, "DRAM");
}

TEST(Bounds, BoundsOfStepsAddUp) {
  Plan plan;
  for (const int64_t bytes : {kMiB, 2 * kMiB, 3 * kMiB}) {
    Step step;
    step.ops = "Gemm", step.bytes = bytes;
    plan.steps.push_back(step);
  }
  const auto one = [&](size_t s) { return bound_of(plan.steps[s], footprint(plan), kPeaks, 1).ms; };
  const std::vector<size_t> some{0, 2};
  EXPECT_GT(one(1), 0);
  EXPECT_DOUBLE_EQ(bound_ms(plan, some, kPeaks, 1), one(0) + one(2));
  EXPECT_DOUBLE_EQ(bound_ms(plan, kPeaks, 1), one(0) + one(1) + one(2));
}

/// The bound hardly rises if the memory that a run touches slightly exceeds a cache.
TEST(Bounds, BoundIsContinuousAtCacheSizes) {
  for (const int64_t end : {kMiB, 32 * kMiB}) EXPECT_NEAR(bound(end + 64).ms, bound(end).ms, 1e-5);
}

}  // namespace
}  // namespace kilter::profile
