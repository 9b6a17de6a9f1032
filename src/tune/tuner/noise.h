// The logarithms of paired ratios of one candidate, and what they say with how much certainty.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "measure/stats.h"

namespace kilter::tune {

/// Ratios of times, candidate over default, taken in pairs. Few samples are the rule, so intervals use the noise that
/// all candidates of a network share where a candidate's own spread is smaller.
class LogRatios {
 public:
  void add(double ratio);
  /// What an earlier sitting found: counts as `samples` samples, at most kMostEarlier.
  void add_earlier(const Ratio& ratio, int64_t samples);

  static constexpr int64_t kMostEarlier = 8;

  bool empty() const { return logs_.empty(); }
  int64_t size() const { return static_cast<int64_t>(logs_.size()); }
  /// Geometric mean of the middle half.
  double cost() const { return std::exp(log_cost()); }
  double log_cost() const;
  /// Standard error of log_cost(), at least that of `noise` (standard deviation of one log ratio).
  double error(double noise) const;
  /// About 95 %: two standard errors.
  Ratio ratio(double noise) const;
  /// Standard deviation of the logarithms; 0 for fewer than three.
  double spread() const;

 private:
  std::vector<double> logs_;
};

/// What the costs of one task's candidates are believed to be. Of many candidates with few noisy samples each the
/// luckiest look best; so each is drawn towards their mean, the more the noisier it is (normal prior, fitted to them).
class Beliefs {
 public:
  explicit Beliefs(double noise) : noise_(noise) {}

  /// Costs above kWorst say nothing about the good ones: they do not count, and are believed as they are.
  void add(const LogRatios& ratios);
  double cost(const LogRatios& ratios) const;

  static constexpr double kWorst = 1.5;

 private:
  double noise_;
  double count_ = 0, sum_ = 0, squares_ = 0, errors_ = 0;  ///< of logarithms; errors: of their variances
};

/// Typical standard deviation of one log ratio: the median of the spreads; `fallback` when there are fewer than three.
double typical_noise(std::vector<double> spreads, double fallback = 0.03);

}  // namespace kilter::tune
