// The gain that is expected to be left in a task, and the share of it that more trials bring.
#include "tune/tuner/left.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/files.h"
#include "base/text.h"

namespace kilter::tune {
namespace {

/// The gain that is expected to be left after trying schedules with these costs, in this order, each with many samples.
double left(const std::vector<double>& costs, double noise = 0.03) {
  std::vector<LogRatios> all(costs.size());
  std::vector<const LogRatios*> tried;
  for (size_t i = 0; i < costs.size(); ++i) {
    for (int sample = 0; sample < 100; ++sample) all[i].add(costs[i]);
    tried.push_back(&all[i]);
  }
  return left_to_gain(tried, noise);
}

TEST(GainLeft, GainOfTheSecondHalfIsLeft) {
  EXPECT_NEAR(left({1.1, 0.95, 1.2, 1.1, 1.1, 0.85, 1.2, 1.1}), 0.10, 0.01);
  EXPECT_NEAR(left({1.1, 1.2, 1.2, 1.1, 1.1, 0.85, 1.2, 1.1}), 0.15, 0.01)
      << "the default is the best of the first half";
  EXPECT_DOUBLE_EQ(left({1.1, 0.85, 1.2, 1.1, 1.1, 0.95, 1.2, 1.1}), 0.005) << "what noise hides";
  EXPECT_DOUBLE_EQ(left({1.1, 1.2, 1.2, 1.1, 1.1, 1.2, 1.2, 1.1}), 0.005) << "the default is the best";
  EXPECT_DOUBLE_EQ(left({1.1, 0.85, 1.2, 1.1, 1.1, 0.95, 1.2, 1.1}, 0.01), 0.0025);
}

TEST(GainLeft, FewSchedulesUseTheMeanRegret) {
  EXPECT_DOUBLE_EQ(left({}), kDefaultLeft);
  EXPECT_DOUBLE_EQ(left({0.5, 1.1}), mean_regret(3));
  EXPECT_DOUBLE_EQ(left(std::vector<double>(kEnoughTried - 1, 0.7)), mean_regret(10.5));
}

/// A lucky sample in the second half does not count as a gain.
TEST(GainLeft, NoiseDoesNotCountAsGain) {
  std::vector<LogRatios> all(40);
  std::vector<const LogRatios*> tried;
  for (size_t i = 0; i < all.size(); ++i) {
    for (int sample = 0; sample < (i == 30 ? 1 : 20); ++sample)
      all[i].add(i == 30 ? 0.95 : 1.0 + 0.001 * static_cast<double>(i % 7));
    tried.push_back(&all[i]);
  }
  EXPECT_LT(left_to_gain(tried, 0.05), 0.015);
}

TEST(GainLeft, DoublingTrialsGainsHalfOfWhatIsLeft) {
  EXPECT_DOUBLE_EQ(gain_of_more(0.04, 100, 100), 0.02);
  EXPECT_DOUBLE_EQ(gain_of_more(0.04, 100, 300), 0.03);
  EXPECT_DOUBLE_EQ(gain_of_more(0.04, 100, 0), 0);
  EXPECT_DOUBLE_EQ(gain_of_more(0.04, 0, 0), 0);
  EXPECT_DOUBLE_EQ(gain_of_more(0.04, 100, 60, 150), 0.04) << "nothing is left to try then";
  EXPECT_DOUBLE_EQ(gain_of_more(0.04, 100, 100, 250), 0.02);
}

TEST(GainLeft, TheMeanRegretFallsWithEachTrial) {
  EXPECT_DOUBLE_EQ(mean_regret(0), kDefaultLeft);
  EXPECT_DOUBLE_EQ(mean_regret(8), 0.0390);
  EXPECT_DOUBLE_EQ(mean_regret(32), 0.0290);
  EXPECT_DOUBLE_EQ(mean_regret(256), 0.0101);
  EXPECT_DOUBLE_EQ(mean_regret(1024), 0.0101 / 4);
  for (int trials = 0; trials < 3000; ++trials) EXPECT_GT(mean_regret(trials), mean_regret(trials + 1)) << trials;
}

TEST(GainLeft, MeanRegretMatchesTheDocumentation) {
  const std::string page = read_file(std::string(KILTER_SOURCE_FOLDER) + "/doc/search.md");
  const size_t noise = page.find("**With the noise of tuning.**"), row = page.find("\n| `model` |", noise);
  ASSERT_NE(noise, std::string::npos);
  ASSERT_NE(row, std::string::npos);
  const std::vector<std::string_view> cells = split(std::string_view(page).substr(row), '|');
  ASSERT_GT(cells.size(), 8U);
  for (int i = 0; i < 6; ++i) {
    const double percent = try_parse_float(trim(cells[static_cast<size_t>(i) + 2])).value_or(-1);
    EXPECT_NEAR(100 * mean_regret(8 << i), percent, 1e-9) << (8 << i) << " trials";
  }
}

}  // namespace
}  // namespace kilter::tune
