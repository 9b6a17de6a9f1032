// Small robust fits: a few non-negative unknowns, fitted by the ratio of predicted to measured values.
#pragma once

#include <cstddef>
#include <vector>

namespace kilter::tune {

struct RatioFit {
  std::vector<double> unknowns;  ///< at least 0 each
  /// The inverse of the matrix of the weighted normal equations, row-major. Multiplied by the square of `spread`, it is
  /// the covariance matrix of the unknowns.
  std::vector<double> inverse;
  double spread = 0;  ///< standard deviation of the logarithms of the ratios, without outliers
  int free = 0;       ///< degrees of freedom: rows with weight minus unknowns above 0; at most 0: no spread is known
};

/// Fits unknowns so that row * unknowns is close to each row's target, by least squares of the logarithms of their
/// ratios. Outliers get little weight: the fit iterates least absolute logarithms, then Tukey's biweight (Beaton and
/// Tukey 1974). If the rows do not distinguish some unknowns, all but the last of these are 0. Deterministic. All rows
/// must have the same length, at most 8, and contain no negative number; at least one number in each must be above 0,
/// and so must all targets.
RatioFit fit_ratios(const std::vector<std::vector<double>>& rows, const std::vector<double>& targets);

}  // namespace kilter::tune
