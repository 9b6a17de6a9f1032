#include "tune/tuner/left.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace kilter::tune {

double mean_regret(double trials) {
  // The mean regret after kFirst trials, after twice as many, and so on.
  constexpr std::array kRegret = {0.0390, 0.0323, 0.0290, 0.0218, 0.0154, 0.0101};
  constexpr double kFirst = 8;
  const double times = trials / kFirst;
  if (times < 1) return std::lerp(kDefaultLeft, kRegret.front(), times);
  const double twice = std::log2(times);
  const auto at = static_cast<size_t>(twice);
  if (at + 1 >= kRegret.size()) return kRegret.back() * std::exp2(kRegret.size() - 1 - twice);
  return std::lerp(kRegret[at], kRegret[at + 1], twice - static_cast<double>(at));
}

double left_to_gain(std::span<const LogRatios* const> tried, double noise) {
  const auto count = static_cast<int64_t>(tried.size());
  if (count < kEnoughTried) return mean_regret(static_cast<double>(count) / kTriedPerTrial);
  Beliefs beliefs(noise);
  for (const LogRatios* ratios : tried) beliefs.add(*ratios);
  double best = 1, half = 1;
  for (int64_t i = 0; i < count; ++i) {
    best = std::min(best, beliefs.cost(*tried[static_cast<size_t>(i)]));
    if (i < count / 2) half = best;
  }
  constexpr double kHidden = 0.005;  // upper limit of the gain that noise could hide
  return std::max(half - best, std::min(noise / 4, kHidden));
}

double gain_of_more(double left, double tried, double more, double size) {
  if (size > 0 && tried + more >= size) return left;
  return more > 0 ? left * more / (tried + more) : 0;
}

}  // namespace kilter::tune
