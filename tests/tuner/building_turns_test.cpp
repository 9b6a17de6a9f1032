// BuildingTurns decides whether candidates are compiled during measurements or between them.
#include "tune/tuner/search/building_turns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kilter::tune {
namespace {

using testing::HasSubstr;

constexpr double kUsual = 10;

/// Notes batches measured on a machine that is `slowed` times slower while candidates are compiled.
void run(BuildingTurns& turns, int batches, double slowed) {
  for (int b = 0; b < batches; ++b) turns.note(turns.beside() ? kUsual * slowed : kUsual, kUsual);
}

TEST(BuildingTurns, WithoutSpareCpusBuildsRunBetweenMeasurements) {
  BuildingTurns turns(false);
  run(turns, 100, 1);
  EXPECT_FALSE(turns.beside());
  EXPECT_FALSE(turns.looks());
  EXPECT_EQ(turns.words(), "between the measurements, which need all CPUs");
}

TEST(BuildingTurns, HarmlessBuildsStayConcurrent) {
  BuildingTurns turns(true);
  for (int b = 0; b < 100; ++b) {
    EXPECT_TRUE(turns.beside());
    run(turns, 1, 1.05);
  }
  EXPECT_EQ(turns.words(), "during the measurements, on other CPUs");
}

TEST(BuildingTurns, DisturbingBuildsTakeTurns) {
  BuildingTurns turns(true);
  run(turns, 4, 1.3);
  EXPECT_TRUE(turns.looks());
  EXPECT_FALSE(turns.beside());
  run(turns, 1, 1.3);
  EXPECT_FALSE(turns.looks());
  EXPECT_FALSE(turns.beside());
  EXPECT_EQ(turns.words(), "between the measurements, which took 1.30 times as long during compilation");
}

TEST(BuildingTurns, GeneralSlownessIsNotBlamedOnBuilding) {
  BuildingTurns turns(true);
  for (int b = 0; b < 4; ++b) turns.note(1.3 * kUsual, kUsual);
  ASSERT_TRUE(turns.looks());
  turns.note(1.3 * kUsual, kUsual);
  EXPECT_TRUE(turns.beside());
  EXPECT_EQ(turns.words(), "during the measurements, on other CPUs");
}

TEST(BuildingTurns, ConcurrentBuildsAreRetriedAndKeptIfHarmless) {
  BuildingTurns turns(true);
  run(turns, 5, 1.3);
  ASSERT_FALSE(turns.beside());
  run(turns, 31, 1);
  EXPECT_FALSE(turns.beside());
  run(turns, 1, 1);
  EXPECT_TRUE(turns.beside()) << "after 32 batches between measurements";
  run(turns, 4, 1);
  EXPECT_TRUE(turns.beside());
  EXPECT_EQ(turns.words(),
            "during the measurements, on other CPUs; in 32 of 41 batches between them, which took 1.30 times as long "
            "during compilation");
}

TEST(BuildingTurns, PersistentDisturbanceIsRetriedLessOften) {
  BuildingTurns turns(true);
  run(turns, 5 + 32 + 4, 1.3);
  EXPECT_FALSE(turns.beside());
  run(turns, 63, 1.3);
  EXPECT_FALSE(turns.beside());
  run(turns, 1, 1.3);
  EXPECT_TRUE(turns.beside()) << "after 64 batches between measurements";
}

TEST(BuildingTurns, LateDisturbanceIsDetected) {
  BuildingTurns turns(true);
  for (int b = 0; b < 5; ++b) turns.note(1.3 * kUsual, kUsual);  // compiling is not to blame
  run(turns, 40, 1);
  EXPECT_TRUE(turns.beside());
  run(turns, 5, 1.5);
  EXPECT_THAT(turns.words(), HasSubstr("between the measurements, which took 1.25 times as long during compilation"))
      << "two batches of four were slow when it looked";
}

}  // namespace
}  // namespace kilter::tune
