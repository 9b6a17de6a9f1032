// How good predictions of costs are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace kilter::tune {

/// Of predictions against measured costs. Figures are means over the groups (tasks) that have rows of different cost,
/// each counting the same; NaN when there is none.
struct Metrics {
  size_t rows = 0;
  size_t groups = 0;
  size_t judged = 0;  ///< groups with rows of different cost
  /// Of all pairs of different cost in a group, the share that is predicted in the right order; equal predictions count
  /// half. 0.5 is what chance gives.
  double pairwise = 0;
  /// Rank correlation (Spearman, equal values share their mean rank); 0 where all predictions are equal.
  double spearman = 0;
  /// How much longer than the group's best the one takes that is predicted best, as a share (0.1: 10 % longer).
  /// Failures are passed over, as a tuner would; of equal predictions the slowest counts. Groups in which something
  /// ran.
  double top1_regret = 0;
  /// Share of groups in which the one predicted best is a failure.
  double failed_first = 0;
};

/// Costs are logarithms of time, infinity for failures; the three lists have an entry for each row. Throws internal
/// when their lengths differ or a number is NaN.
Metrics judge(std::span<const double> predicted, std::span<const double> costs, std::span<const int64_t> groups);

/// Spearman's rank correlation of two lists of the same length; 0 when one of them is constant.
double rank_correlation(std::span<const double> a, std::span<const double> b);

}  // namespace kilter::tune
