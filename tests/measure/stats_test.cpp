#include "measure/stats.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/random.h"

namespace kilter {
namespace {

TEST(Stats, FiguresOfAKnownSet) {
  const std::vector<double> values = {4, 1, 3, 2, 100};
  EXPECT_DOUBLE_EQ(mean(values), 22);
  EXPECT_DOUBLE_EQ(median(values), 3);
  EXPECT_DOUBLE_EQ(quantile(values, 0), 1);
  EXPECT_DOUBLE_EQ(quantile(values, 0.25), 2);
  EXPECT_DOUBLE_EQ(quantile(values, 0.875), 52);
  EXPECT_DOUBLE_EQ(quantile(values, 1), 100);
  EXPECT_NEAR(std_dev(values), 43.6176, 1e-4);
  EXPECT_EQ(std_dev(std::vector<double>{7}), 0);
}

TEST(Stats, MiddleHalfCutsAQuarterAtEachEnd) {
  EXPECT_DOUBLE_EQ(mean_of_middle_half(std::vector<double>{5}), 5);
  EXPECT_DOUBLE_EQ(mean_of_middle_half(std::vector<double>{5, 7}), 6);
  EXPECT_DOUBLE_EQ(mean_of_middle_half(std::vector<double>{9, 1, 5, 1000}), 7);
  // A quarter of five values is 1.25 values, so the second and the fourth are weighted by three quarters.
  EXPECT_DOUBLE_EQ(mean_of_middle_half(std::vector<double>{-1e9, 1, 2, 4, 1e9}), (2 + 0.75 * (1 + 4)) / 2.5);
  EXPECT_DOUBLE_EQ(mean_of_middle_half(std::vector<double>{8, 7, 6, 5, 4, 3, 2, 1}), 4.5);
}

TEST(Stats, MiddleHalfAgreesWithTheDefinitionOnRandomSets) {
  const Random random(3);
  for (size_t n = 1; n < 60; ++n) {
    // Each value appears four times, so a quarter is a whole number of values.
    std::vector<double> values(n);
    std::vector<double> four_times;
    for (size_t i = 0; i < n; ++i) {
      values[i] = random.normal(n * 100 + i);
      four_times.insert(four_times.end(), 4, values[i]);
    }
    std::sort(four_times.begin(), four_times.end());
    const std::vector<double> middle(four_times.begin() + static_cast<std::ptrdiff_t>(n),
                                     four_times.end() - static_cast<std::ptrdiff_t>(n));
    EXPECT_NEAR(mean_of_middle_half(values), mean(middle), 1e-12) << n;
  }
}

TEST(Stats, NoSamplesIsAnError) {
  EXPECT_THROW(mean({}), Error);
  EXPECT_THROW(quantile({}, 0.5), Error);
  EXPECT_THROW(mean_of_middle_half({}), Error);
  EXPECT_THROW(Samples{}.median(), Error);
}

TEST(Stats, SpreadIsTheInterquartileRange) {
  const Samples samples{{90, 100, 110, 100, 100}};
  EXPECT_DOUBLE_EQ(samples.spread(), 0);
  const Samples wide{{80, 90, 100, 110, 120}};
  EXPECT_NEAR(wide.spread(), 0.1, 1e-12);
}

TEST(PairedRatio, OfConstantSetsIsExact) {
  const std::vector<double> a(10, 2.0);
  const std::vector<double> b(10, 3.0);
  const Ratio r = paired_ratio(a, b);
  EXPECT_DOUBLE_EQ(r.value, 1.5);
  EXPECT_DOUBLE_EQ(r.low, 1.5);
  EXPECT_DOUBLE_EQ(r.high, 1.5);
  EXPECT_TRUE(r.contains(1.5));
  EXPECT_FALSE(r.contains(1.0));
}

TEST(PairedRatio, SameSamplesAndSeedGiveTheSameInterval) {
  const Random random(1);
  std::vector<double> a;
  std::vector<double> b;
  for (uint64_t i = 0; i < 40; ++i) {
    a.push_back(std::exp(0.1 * random.normal(2 * i)));
    b.push_back(std::exp(0.1 * random.normal(2 * i + 1)));
  }
  const Ratio first = paired_ratio(a, b);
  const Ratio second = paired_ratio(a, b);
  EXPECT_EQ(first.low, second.low);
  EXPECT_EQ(first.high, second.high);
  BootstrapOptions other;
  other.seed = 2;
  EXPECT_NE(paired_ratio(a, b, other).low, first.low);
  const Ratio back = paired_ratio(b, a);
  EXPECT_NEAR(back.value * first.value, 1, 1e-12);
}

/// Returns how many of 400 intervals contain the truth, and their mean half-width, for `n` rounds whose log-ratios are
/// `noise` around log(truth). Noise common to both candidates must not matter.
template <class Noise>
std::pair<int, double> coverage(size_t n, double truth, Noise&& noise) {
  int contains = 0;
  double width = 0;
  for (uint64_t trial = 0; trial < 400; ++trial) {
    const Random random(1000 + trial);
    std::vector<double> a;
    std::vector<double> b;
    for (uint64_t i = 0; i < n; ++i) {
      const double common = 1 + random.uniform(5 * i + 1);
      a.push_back(common);
      b.push_back(common * truth * std::exp(noise(random, 5 * i)));
    }
    BootstrapOptions options;
    options.resamples = 400;
    options.seed = trial;
    const Ratio r = paired_ratio(a, b, options);
    contains += r.contains(truth) ? 1 : 0;
    width += r.half_width() / 400;
  }
  return {contains, width};
}

// 95 % of 400 is 380; the standard deviation of the binomial is 4.4. The bounds allow for a true coverage that is
// 1.5 % off, plus three standard deviations.
TEST(PairedRatio, NormalNoiseIsCoveredAtTheStatedConfidence) {
  for (const size_t n : {12, 20, 60, 200}) {
    const auto [contains, width] =
        coverage(n, 1.03, [](const Random& random, uint64_t i) { return 0.02 * double{random.normal(i)}; });
    EXPECT_GE(contains, 361) << n;
    EXPECT_LE(contains, 399) << n;
    // The middle half's standard error is 1.09 (asymptotically) to 1.2 times the mean's.
    const double mean_width = 1.96 * 0.02 / std::sqrt(static_cast<double>(n));
    EXPECT_GT(width, mean_width * 1.0) << n;
    EXPECT_LT(width, mean_width * 1.6) << n;
  }
}

TEST(PairedRatio, RareLongStallsDoNotWidenTheInterval) {
  const auto [contains, width] = coverage(60, 1.0, [](const Random& random, uint64_t i) {
    const double noise = 0.005 * double{random.normal(i)};
    return random.uniform(i + 2) < 0.1F ? noise + (random.uniform(i + 3) < 0.5F ? -1.5 : 1.5) : noise;
  });
  EXPECT_GE(contains, 365);
  EXPECT_LT(width, 0.003);
}

TEST(PairedRatio, WrongSetsAreRefused) {
  const std::vector<double> two = {1, 2};
  const std::vector<double> three = {1, 2, 3};
  const std::vector<double> zero = {1, 0};
  EXPECT_THROW(paired_ratio(two, three), Error);
  EXPECT_THROW(paired_ratio(two, zero), Error);
  EXPECT_THROW(paired_ratio({}, {}), Error);
}

TEST(BootstrapMean, CoversTheMeanOfSamples) {
  int contains = 0;
  for (uint64_t trial = 0; trial < 200; ++trial) {
    const Random random(trial);
    std::vector<double> values;
    for (uint64_t i = 0; i < 40; ++i) values.push_back(10 + double{random.normal(i)});
    contains += bootstrap_mean(values, {0.95, 400, trial}).contains(10) ? 1 : 0;
  }
  EXPECT_GE(contains, 178);
  EXPECT_LE(contains, 200);
}

TEST(Bootstrap, GeneralFormMatchesBootstrapOfTheMean) {
  std::vector<double> values;
  for (int i = 0; i < 60; ++i) values.push_back(10 + (i * 7 % 13));
  size_t calls = 0;
  const auto of_picks = [&](std::span<const size_t> picks) {
    ++calls;
    EXPECT_EQ(picks.size(), values.size());
    EXPECT_TRUE(std::ranges::is_sorted(picks));
    std::vector<double> drawn;
    for (const size_t pick : picks) drawn.push_back(values.at(pick));
    return mean_of_middle_half(drawn);
  };
  const Ratio any = bootstrap_of(values.size(), of_picks), known = bootstrap_mean(values);
  EXPECT_EQ(calls, 1001U);
  EXPECT_DOUBLE_EQ(any.value, known.value);
  EXPECT_DOUBLE_EQ(any.low, known.low);
  EXPECT_DOUBLE_EQ(any.high, known.high);
}

}  // namespace
}  // namespace kilter
