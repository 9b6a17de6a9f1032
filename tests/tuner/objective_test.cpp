// The objective of tuning: its text form, and the scores of plans.
#include "tune/tuner/objective.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"

namespace kilter::tune {
namespace {

std::string refusal(const std::string& given) {
  try {
    parse_objective(given);
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::usage);
    return e.message();
  }
  return "accepted";
}

TEST(Objective, IsReadAndWritten) {
  EXPECT_EQ(parse_objective("latency"), TuneObjective{});
  EXPECT_EQ(parse_objective("latency:100"), TuneObjective{});
  EXPECT_EQ(parse_objective("memory"), kMemoryObjective);
  EXPECT_EQ(parse_objective("memory:100"), kMemoryObjective);
  EXPECT_EQ(parse_objective("latency:80,memory:20"), (TuneObjective{80, 20}));
  EXPECT_EQ(parse_objective("memory: 70, latency: 30"), (TuneObjective{30, 70}));
  for (const char* written : {"latency", "memory", "latency:80,memory:20", "latency:1,memory:99"})
    EXPECT_EQ(text(parse_objective(written)), written);
}

TEST(Objective, RefusesUnknownObjectives) {
  const std::string legal =
      "; legal values are latency, memory, or weights in percent that add up to 100, such as latency:80,memory:20";
  const auto expect = [&](const std::string& given, const std::string& why) {
    EXPECT_EQ(refusal(given), "--objective " + given + ": " + why + legal);
  };
  expect("speed", "unknown objective 'speed'");
  expect("", "unknown objective ''");
  expect("latency:80,speed:20", "unknown objective 'speed'");
  expect("latency:80,memory:30", "the weights add up to 110");
  expect("latency:80", "the weights add up to 80");
  expect("latency:80,memory", "'memory' has no weight");
  expect("latency:50,latency:50", "'latency' is given twice");
  expect("latency:120,memory:-20", "the weight of latency is '120', expected a whole number from 1 to 100");
  expect("memory:-20,latency:120", "the weight of memory is '-20', expected a whole number from 1 to 100");
  expect("latency:0,memory:100", "the weight of latency is '0', expected a whole number from 1 to 100");
  expect("latency:79.5,memory:20.5", "the weight of latency is '79.5', expected a whole number from 1 to 100");
  expect("latency:80,", "unknown objective ''");
}

TEST(Objective, LatencyIgnoresBytes) {
  const Ratio time{0.9, 0.8, 1.1};
  const Ratio score = TuneObjective{}.score(time, 7);
  EXPECT_EQ(score.value, time.value);
  EXPECT_EQ(score.low, time.low);
  EXPECT_EQ(score.high, time.high);
  EXPECT_EQ(TuneObjective{}.price(3, 5), 0);
}

TEST(Objective, AScoreIsAWeightedGeometricMean) {
  const Ratio score = TuneObjective{50, 50}.score({2, 1, 4}, 0.5);
  EXPECT_DOUBLE_EQ(score.value, 1);
  EXPECT_DOUBLE_EQ(score.low, std::sqrt(0.5));
  EXPECT_DOUBLE_EQ(score.high, std::sqrt(2.0));
  EXPECT_LT(kMemoryObjective.score({1.6, 1.5, 1.7}, 0.9).high, 1) << "a tenth of the bytes is worth more than this";
  EXPECT_GT(kMemoryObjective.score({1.3, 1.29, 1.31}, 0.995).low, 1) << "half a percent of them is not";
  EXPECT_LT(kMemoryObjective.score({0.9, 0.89, 0.91}, 1).high, 1) << "with equal bytes, time decides";
}

/// A small change that saves bytes at their price does not change the score.
TEST(Objective, PriceOfBytesKeepsTheScore) {
  const TuneObjective objective{80, 20};
  const double time = 40, bytes = 1000, saved = 0.01;
  const double later = (time + saved * objective.price(time, bytes)) / time;
  EXPECT_NEAR(objective.score({later, later, later}, (bytes - saved) / bytes).value, 1, 1e-9);
}

}  // namespace
}  // namespace kilter::tune
