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
  int free = 0;       ///< rows that count minus unknowns above 0; if 0 or less, the spread is meaningless
};

/// Fits unknowns so that row * unknowns is close to each row's target, by least squares of the logarithms of their
/// ratios. Outliers lose their weight: least absolute logarithms come first, then Tukey's biweight (Beaton and Tukey
/// 1974) is iterated. If the rows cannot distinguish unknowns, the later ones explain them. Deterministic. Rows must
/// have the same length of at most 8 and non-negative numbers, some above 0 in each; targets must be above 0.
RatioFit fit_ratios(const std::vector<std::vector<double>>& rows, const std::vector<double>& targets);

}  // namespace kilter::tune
