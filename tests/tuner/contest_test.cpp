// Races of whole plans end when their ratios are known precisely enough.
#include "tune/tuner/race/contest.h"

#include <gtest/gtest.h>

#include "measure/clock.h"
#include "network.h"

namespace kilter::tune {
namespace {

/// 24 rounds of about `ms`, which vary by +-`share` of it.
Series rounds(double ms, double share) {
  Series out;
  for (int r = 0; r < 24; ++r) out.total.push_back(ms * (1 + share * (r % 3 - 1)));
  return out;
}

TEST(Contest, IsSharpIfAllRatiosOfTheFirstPlanAre) {
  const Series sharp = rounds(2, 0), blurred = rounds(2, 0.1);
  const auto with = [](std::vector<Series> all) {
    Contest c;
    c.series = std::move(all);
    return is_sharp(c, 0.002);
  };
  EXPECT_TRUE(with({sharp, sharp}));
  EXPECT_TRUE(with({sharp, sharp, sharp, sharp}));
  EXPECT_FALSE(with({blurred, sharp}));         // the default plan varies
  EXPECT_FALSE(with({sharp, sharp, blurred}));  // a rival varies
  EXPECT_FALSE(with({sharp, sharp, sharp, blurred}));
  EXPECT_FALSE(with({sharp, blurred, sharp}));
}

TEST(Contest, RunsOnlyUntilItIsSharp) {
  NetworkBench bench = bench_of(small_network());
  const Contest wide = hold_contest(bench, {{}, {}}, 60, 100);
  release(bench, wide);
  EXPECT_EQ(wide.series.size(), 3U);
  EXPECT_GE(wide.rounds, 12);
  EXPECT_LT(wide.rounds, 40);
  const Contest narrow = hold_contest(bench, {{}, {}}, 0.5, 0);
  release(bench, narrow);
  EXPECT_GT(narrow.rounds, 0);
  const double start = now_ms();
  RaceEnd end(start + 60e3, [] { return true; });
  const Contest interrupted = hold_contest(bench, {{}, {}}, 60, 0, &end);
  release(bench, interrupted);
  EXPECT_TRUE(end.interrupted());
  EXPECT_GT(interrupted.rounds, 0);
  EXPECT_LT(now_ms() - start, 20e3);
}

}  // namespace
}  // namespace kilter::tune
