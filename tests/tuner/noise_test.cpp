#include "tune/tuner/noise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace kilter::tune {
namespace {

LogRatios drawn(double truth, double sigma, int count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> noise(0, sigma);
  LogRatios out;
  for (int i = 0; i < count; ++i) out.add(truth * std::exp(noise(random)));
  return out;
}

TEST(Noise, CostIsTheMiddleOfTheRatios) {
  LogRatios r;
  for (const double ratio : {0.5, 0.5, 0.5, 0.5, 40.0}) r.add(ratio);
  EXPECT_NEAR(r.cost(), 0.5, 1e-9) << "one disturbed sample must not count";
  EXPECT_EQ(r.size(), 5);
}

/// The best of a hundred candidates with two noisy samples each looks better than it is.
TEST(Noise, LuckiestCandidateIsTrustedLessThanItsSamples) {
  constexpr double kNoise = 0.1, kTrueSpread = 0.05;
  std::mt19937_64 random(7);
  std::normal_distribution<double> truths(0.05, kTrueSpread);
  double raw = 0, believed = 0;
  constexpr int kRuns = 200;
  for (int run = 0; run < kRuns; ++run) {
    Beliefs beliefs(kNoise);
    double least = INFINITY, truth_of_least = 0;
    LogRatios lucky;
    for (int i = 0; i < 100; ++i) {
      const double truth = std::exp(truths(random));
      const LogRatios ratios = drawn(truth, kNoise, 2, random());
      beliefs.add(ratios);
      if (ratios.cost() < least) least = ratios.cost(), truth_of_least = truth, lucky = ratios;
    }
    raw += std::log(least / truth_of_least) / kRuns;
    believed += std::log(beliefs.cost(lucky) / truth_of_least) / kRuns;
  }
  EXPECT_LT(raw, -0.1);
  EXPECT_NEAR(believed, 0, 0.015);
}

TEST(Noise, BeliefsNeedCandidatesAndForgetTheWorst) {
  Beliefs few(0.1);
  LogRatios fast, slow;
  fast.add(0.8), slow.add(20);
  few.add(fast);
  EXPECT_EQ(few.cost(fast), fast.cost());
  for (int i = 0; i < 5; ++i) few.add(slow);
  EXPECT_EQ(few.cost(fast), fast.cost());
  for (int i = 0; i < 5; ++i) few.add(fast);
  EXPECT_EQ(few.cost(slow), slow.cost());
}

TEST(Noise, FewSamplesUseTheTypicalNoise) {
  LogRatios r;
  r.add(0.9);
  r.add(0.9);
  const Ratio known = r.ratio(0.02);
  EXPECT_NEAR(known.value, 0.9, 1e-9);
  EXPECT_NEAR(known.high / known.value, std::exp(2 * 0.02 / std::sqrt(2.0)), 1e-9);
  EXPECT_LT(known.low, 0.9);
}

TEST(Noise, IntervalsHaveTheStatedCoverage) {
  int held = 0;
  constexpr int kTries = 400;
  for (uint64_t seed = 0; seed < kTries; ++seed) held += drawn(0.95, 0.03, 6, seed).ratio(0.03).contains(0.95) ? 1 : 0;
  EXPECT_GE(held, kTries * 90 / 100);
}

TEST(Noise, EarlierRunsCountAsFewSamples) {
  LogRatios r;
  r.add_earlier({0.8, 0.7, 0.9}, 1000);
  EXPECT_EQ(r.size(), LogRatios::kMostEarlier);
  EXPECT_NEAR(r.cost(), 0.8, 1e-9);
}

/// A resumed run knows many candidates from records with one value each, which say nothing about the noise.
TEST(Noise, RecordsDoNotAffectTheNoise) {
  std::mt19937_64 random(3);
  std::normal_distribution<double> noise(0, 0.04);
  std::vector<double> spreads;
  for (int i = 0; i < 500; ++i) {
    LogRatios r;
    const double value = std::exp(noise(random));
    r.add_earlier({value, value * 0.98, value * 1.02}, 2 + i % 7);
    spreads.push_back(r.spread());
    EXPECT_EQ(spreads.back(), 0);
  }
  EXPECT_EQ(typical_noise(spreads, 0.04), 0.04);
  for (uint64_t seed = 0; seed < 20; ++seed) spreads.push_back(drawn(1, 0.04, 6, seed).spread());
  EXPECT_NEAR(typical_noise(spreads, 0.01), 0.04, 0.01);
}

TEST(Noise, TrialsThatDisagreeWidenTheInterval) {
  LogRatios steady, jumping;
  for (int trial = 0; trial < 6; ++trial) {
    for (int i = 0; i < 6; ++i) {
      steady.add(0.95);
      jumping.add(trial % 2 == 0 ? 0.90 : 1.00);
    }
    steady.end_trial(), jumping.end_trial();
  }
  EXPECT_NEAR(steady.error(0.01), 0.01 / 6, 1e-9);
  EXPECT_GT(jumping.error(0.01), 0.02) << "six trials, not 36 samples";
}

TEST(Noise, TypicalNoiseIgnoresZeroSpread) {
  EXPECT_EQ(typical_noise({0, 0, 0.5}, 0.04), 0.04);
  EXPECT_EQ(typical_noise({0, 0.01, 0.02, 0.03, 0}), 0.02);
}

}  // namespace
}  // namespace kilter::tune
