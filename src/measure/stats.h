// Figures for a set of samples, and the interval of a ratio of two sets that were taken in pairs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

namespace kilter {

/// The estimator of every duration in Kilter, in words for reports.
constexpr std::string_view kEstimator = "mean of the middle half";

/// All of these functions accept values in any order and throw internal when there are none.
double mean(std::span<const double> values);
/// Returns the sample's standard deviation (divides by n - 1); 0 for one value.
double std_dev(std::span<const double> values);
/// Returns the value that the given share (0..1) of the values do not exceed, with linear interpolation.
double quantile(std::span<const double> values, double share);
double median(std::span<const double> values);
/// Returns the interquartile mean: the mean after a quarter of the values is cut off at each end. Values at the two
/// cuts count in part, so the estimate does not jump as values are added. Up to 25 % of the values may be arbitrarily
/// wrong.
double mean_of_middle_half(std::span<const double> values);

/// Samples in milliseconds and their figures.
struct Samples {
  std::vector<double> ms;

  double min() const { return kilter::quantile(ms, 0); }
  double median() const { return kilter::median(ms); }
  double quantile(double share) const { return kilter::quantile(ms, share); }
  double mean() const { return kilter::mean(ms); }
  double std_dev() const { return kilter::std_dev(ms); }
  /// Returns the estimate that Kilter prints: mean_of_middle_half.
  double middle_mean() const { return mean_of_middle_half(ms); }
  /// Returns half the distance between the quartiles as a share of middle_mean(): 0.01 means that half of the samples
  /// are within about 1 %. 0 when the mean is 0.
  double spread() const;
};

/// An estimate and the ends of its confidence interval.
struct Ratio {
  double value = 1;
  double low = 1;
  double high = 1;

  bool contains(double ratio) const { return low <= ratio && ratio <= high; }
  /// Returns the half-width of the interval as a share of the value.
  double half_width() const { return (high - low) / 2 / value; }
};

struct BootstrapOptions {
  double confidence = 0.95;
  int resamples = 1000;
  uint64_t seed = 1;
};

/// Returns how much longer `b` takes than `a`; b[i] and a[i] were taken next to each other in round i. The estimate is
/// exp(mean_of_middle_half(log(b[i] / a[i]))). The interval is the bootstrap's percentiles over rounds, widened for few
/// rounds according to Hesterberg (2015, "What Teachers Should Know About the Bootstrap"). The same samples and options
/// give the same result on every machine. Throws internal for sets of different size, with fewer than 2 rounds or with
/// a time that is not positive. A percentile of two or three rounds means little; take ten or more.
Ratio paired_ratio(std::span<const double> a, std::span<const double> b, const BootstrapOptions& options = {});

/// Returns the mean of the middle half of one set of positive samples, with a bootstrap interval like that of
/// paired_ratio().
Ratio bootstrap_mean(std::span<const double> values, const BootstrapOptions& options = {});

/// Returns `estimate` of `count` samples, with a bootstrap interval like that of paired_ratio(). `estimate` receives
/// the drawn indices in ascending order; an index that was drawn twice appears twice.
Ratio bootstrap_of(size_t count, const std::function<double(std::span<const size_t>)>& estimate,
                   const BootstrapOptions& options = {});

}  // namespace kilter
