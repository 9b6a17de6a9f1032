// The logarithms of a candidate's paired time ratios, and the conclusions that they allow, with their certainty.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "measure/stats.h"

namespace kilter::tune {

/// Ratios of paired times, candidate over default. There are usually few samples, so intervals use the noise level that
/// all candidates of a network share, unless the candidate's own spread is larger. Samples are grouped in trials: each
/// trial places the candidate at a different place in memory, so differences between its trials count as well.
class LogRatios {
 public:
  /// Adds one sample to the current trial.
  void add(double ratio);
  /// Ends the current trial: later samples belong to a new one.
  void end_trial() { open_ = false; }
  /// Adds a trial of an earlier run. It counts as `samples` samples, at most kMostEarlier, and does not affect
  /// spread().
  void add_earlier(const Ratio& ratio, int64_t samples);

  static constexpr int64_t kMostEarlier = 8;

  bool empty() const { return logs_.empty(); }
  int64_t size() const { return static_cast<int64_t>(logs_.size()); }
  /// Geometric mean of the middle half of the samples.
  double cost() const { return std::exp(log_cost()); }
  double log_cost() const;
  /// Standard error of log_cost(). It combines the spread of the samples, which is taken as at least `noise` (the
  /// standard deviation of one log ratio), with the differences between trials if there are at least three.
  double error(double noise) const;
  /// The cost with an interval of about 95 % (two standard errors).
  Ratio ratio(double noise) const;
  /// Standard deviation of the logarithms of this run's samples; 0 for fewer than three.
  double spread() const;

 private:
  struct Trial {
    double sum = 0;
    int64_t count = 0;
  };

  std::vector<double> logs_;   ///< each earlier trial is repeated as often as its weight
  std::vector<double> fresh_;  ///< samples of this run
  std::vector<Trial> trials_;
  bool open_ = false;  ///< the last trial still accepts samples
};

/// The believed costs of one task's candidates. Among many candidates with few noisy samples each, those that were
/// lucky look best. Each cost is therefore shrunk towards the candidates' mean, and more strongly if it is noisier
/// (normal prior, fitted to the candidates).
class Beliefs {
 public:
  explicit Beliefs(double noise) : noise_(noise) {}

  /// Costs above kWorst give no information about the good candidates: they are ignored here, and cost() returns them
  /// unchanged.
  void add(const LogRatios& ratios);
  double cost(const LogRatios& ratios) const;

  static constexpr double kWorst = 1.5;

 private:
  double noise_;
  double count_ = 0, sum_ = 0, squares_ = 0, errors_ = 0;  ///< sums over logarithms; errors_ sums their variances
};

/// Standard deviation of one log ratio, used if a network's own is unknown.
constexpr double kUsualNoise = 0.03;

/// Typical standard deviation of one log ratio: the median of the spreads, or `fallback` if there are fewer than three.
double typical_noise(std::vector<double> spreads, double fallback = kUsualNoise);

}  // namespace kilter::tune
