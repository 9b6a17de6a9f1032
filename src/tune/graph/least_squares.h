// Small robust fits: a handful of unknowns, none below 0, by the ratio of what they give to what was measured.
#pragma once

#include <cstddef>
#include <vector>

namespace kilter::tune {

struct RatioFit {
  std::vector<double> unknowns;  ///< 0 or more each
  std::vector<double> inverse;   ///< of the weighted normal equations, row-major; times spread squared: covariances
  double spread = 0;             ///< standard deviation of the logarithms of the ratios, outliers left out
  int free = 0;                  ///< rows that count less unknowns above 0; 0 or less: the spread says nothing
};

/// Unknowns that make each row * unknowns as near to the row's target as its neighbours allow: least squares of the
/// logarithms of their ratios. Rows far off lose their weight: first least absolute logarithms are sought, then Tukey's
/// biweight (Beaton and Tukey 1974) is iterated. Where rows do not tell unknowns apart, the later ones explain them.
/// Deterministic. Rows all of one length of at most 8, of numbers of 0 or more, some above 0 in each; targets above 0.
RatioFit fit_ratios(const std::vector<std::vector<double>>& rows, const std::vector<double>& targets);

}  // namespace kilter::tune
