// Measures the quality of cost predictions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace kilter::tune {

/// Quality of predictions compared with measured costs. The figures are means over the groups (tasks) that have rows of
/// different costs, with equal weight; NaN if there is none.
struct Metrics {
  size_t rows = 0;
  size_t groups = 0;
  size_t judged = 0;  ///< groups with rows of different costs
  /// The share of all pairs of different cost in a group that are predicted in the right order; equal predictions count
  /// half. Chance gives 0.5.
  double pairwise = 0;
  /// Rank correlation (Spearman; equal values share their mean rank); 0 if all predictions are equal.
  double spearman = 0;
  /// The share by which the row predicted best takes longer than the group's best (0.1: 10 % longer). Failures are
  /// skipped, as a tuner would do; among equal predictions the slowest counts. Groups in which nothing ran are left
  /// out.
  double top1_regret = 0;
  /// Share of groups in which the row predicted best is a failure.
  double failed_first = 0;
};

/// Computes the metrics. Costs are logarithms of time, infinity for failures; the three lists have one entry per row.
/// Throws internal if their lengths differ or a number is NaN.
Metrics judge(std::span<const double> predicted, std::span<const double> costs, std::span<const int64_t> groups);

/// Spearman's rank correlation of two lists of the same length; 0 if one of them is constant.
double rank_correlation(std::span<const double> a, std::span<const double> b);

}  // namespace kilter::tune
