// The logarithms of paired ratios of one candidate, and what they say with how much certainty.
#pragma once

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
  double cost() const;
  /// About 95 %: two standard errors, at least those of `noise` (standard deviation of one log ratio).
  Ratio ratio(double noise) const;
  /// Standard deviation of the logarithms; 0 for fewer than three.
  double spread() const;

 private:
  std::vector<double> logs_;
};

/// Typical standard deviation of one log ratio: the median of the spreads; `fallback` when there are fewer than three.
double typical_noise(std::vector<double> spreads, double fallback = 0.03);

}  // namespace kilter::tune
