// The logarithms of paired ratios of one candidate, and what they say with how much certainty.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "measure/stats.h"

namespace kilter::tune {

/// Ratios of times, candidate over default, taken in pairs. Few samples are the rule, so intervals use the noise that
/// all candidates of a network share where a candidate's own spread is smaller. Samples come in trials: a candidate
/// lies elsewhere in memory in each, so what its trials differ by counts, too.
class LogRatios {
 public:
  /// One sample of the trial under way.
  void add(double ratio);
  /// The samples that follow belong to another trial.
  void end_trial() { open_ = false; }
  /// A trial of an earlier sitting: counts as `samples` samples, at most kMostEarlier, and says nothing of the noise.
  void add_earlier(const Ratio& ratio, int64_t samples);

  static constexpr int64_t kMostEarlier = 8;

  bool empty() const { return logs_.empty(); }
  int64_t size() const { return static_cast<int64_t>(logs_.size()); }
  /// Geometric mean of the middle half.
  double cost() const { return std::exp(log_cost()); }
  double log_cost() const;
  /// Standard error of log_cost(): what the spread of the samples makes, at least that of `noise` (standard deviation
  /// of one log ratio), and what the trials differ by, from three of them on.
  double error(double noise) const;
  /// About 95 %: two standard errors.
  Ratio ratio(double noise) const;
  /// Standard deviation of the logarithms of this sitting's samples; 0 for fewer than three.
  double spread() const;

 private:
  struct Trial {
    double sum = 0;
    int64_t count = 0;
  };

  std::vector<double> logs_;   ///< earlier trials as often as they count
  std::vector<double> fresh_;  ///< those of this sitting
  std::vector<Trial> trials_;
  bool open_ = false;  ///< the last trial takes more samples
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

/// Standard deviation of one log ratio, where a network's own is not known.
constexpr double kUsualNoise = 0.03;

/// Typical standard deviation of one log ratio: the median of the spreads; `fallback` when there are fewer than three.
double typical_noise(std::vector<double> spreads, double fallback = kUsualNoise);

}  // namespace kilter::tune
