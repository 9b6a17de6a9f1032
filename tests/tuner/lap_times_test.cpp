#include "tune/tuner/race/lap_times.h"

#include <gtest/gtest.h>

#include "../base/error_of.h"

namespace kilter::tune {
namespace {

/// A lap of three steps. The second one has the width `w`. If that is much above 1, the step shared its core with
/// another process.
Lap lap(int64_t round, double second_ms, double w) {
  Lap out;
  out.round = round;
  out.step_ms = {1, second_ms, 3};
  out.gap_ms = {0.1, 0.2, 0.3};
  out.width = {1, w, 1};
  out.total_ms = 5 + second_ms;
  return out;
}

TEST(LapTimes, StepsOnASharedCoreAreSkippedIfOthersExist) {
  const std::vector<Lap> laps{lap(0, 2, 1), lap(0, 4, 1.6), lap(1, 4, 2)};
  const LayerTime clean = layer_time(laps, 0, {1});
  EXPECT_DOUBLE_EQ(clean.ms, 2.2);
  EXPECT_TRUE(clean.alone);
  const LayerTime shared = layer_time(laps, 1, {1, 2});
  EXPECT_DOUBLE_EQ(shared.ms, 4.2 + 3.3);
  EXPECT_FALSE(shared.alone) << "one of its steps was not alone";
  EXPECT_TRUE(layer_time(laps, 1, {0}).alone);
  EXPECT_EQ(layer_time(laps, 2, {1}).ms, 0) << "no run";
  EXPECT_FALSE(layer_time(laps, 2, {1}).alone);
}

TEST(LapTimes, DefaultThatNeverRanIsAnError) {
  Laps laps;
  laps.laps = {{lap(0, 2, 1), lap(1, 2, 1)}};
  laps.rounds = 2;
  EXPECT_DOUBLE_EQ(default_run_ms(laps), 7);
  laps.laps = {{}};
  EXPECT_EQ(error_of([&] { (void)default_run_ms(laps); }),
            "the network under its default schedules cannot be timed: no reason is known");
  laps.faults = {{1, FaultKind::timeout, 3, "conv3", "did not end within 5000 ms at step 3 'conv3' while measuring"},
                 {1, FaultKind::crash, -1, "", "signal 11"}};
  EXPECT_EQ(
      error_of([&] { (void)default_run_ms(laps); }),
      "the network under its default schedules cannot be timed: did not end within 5000 ms at step 3 'conv3' while "
      "measuring; signal 11");
}

TEST(LapTimes, ARunIsTheSumOfItsStepsAndTheRest) {
  // If no step is left out, the result is the mean of the totals.
  EXPECT_DOUBLE_EQ(run_ms({lap(0, 2, 1), lap(0, 4, 1)}, 0), 8);
  // The slower second step, on a shared core, is left out, but the other steps of its run count.
  EXPECT_DOUBLE_EQ(run_ms({lap(0, 2, 1), lap(0, 4, 1.5)}, 0), 7);
  EXPECT_DOUBLE_EQ(run_ms({lap(0, 4, 1.5)}, 0), 9) << "there is nothing else";
  EXPECT_EQ(run_ms({lap(0, 4, 1.5)}, 1), 0);
}

TEST(LapTimes, DelayedRunsAreLeftOut) {
  std::vector<Lap> laps{lap(0, 2, 1), lap(0, 40, 1)};
  laps[1].held_up = true;
  EXPECT_DOUBLE_EQ(layer_time(laps, 0, {1}).ms, 2.2);
  laps[0].held_up = true;
  EXPECT_FALSE(layer_time(laps, 0, {1}).alone);
}

TEST(LapTimes, UsualTimeComesFromUndisturbedRuns) {
  EXPECT_DOUBLE_EQ(usual_ms({lap(0, 2, 1), lap(1, 4, 1.5), lap(2, 2, 1)}, {1}), 2.2);
  EXPECT_DOUBLE_EQ(usual_ms({lap(1, 4, 1.5)}, {1}), 4.2);
}

TEST(UsualTimes, AreAtMostTwiceTheLeast) {
  UsualTimes times;
  EXPECT_TRUE(times.is_usual("conv1", 2.0)) << "nothing is known yet";
  EXPECT_TRUE(times.is_usual("conv1", 0.33));
  EXPECT_FALSE(times.is_usual("conv1", 2.0));
  EXPECT_TRUE(times.is_usual("conv1", 0.65));
  EXPECT_TRUE(times.is_usual("conv2", 2.0)) << "another layer";
}

}  // namespace
}  // namespace kilter::tune
