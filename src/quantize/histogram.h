// The values of a tensor over all samples as a histogram, and the ranges that methods of calibration choose from it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "quantize/scale.h"

namespace kilter::quantize {

enum class Method : uint8_t {
  minmax,      ///< everything between the smallest and the largest value
  percentile,  ///< leaves out a share of the values at both ends
  entropy,     ///< the range that loses the least information
};

/// Counts of values in equal bins between the ends of a known range.
class Histogram {
 public:
  static constexpr size_t kBins = 4096;

  /// `range` must contain all values that are added later.
  explicit Histogram(const Range& range);
  void add(std::span<const float> values);

  /// Returns the range without (100 - percent) / 2 per cent of the values at each end, to the width of a bin. It always
  /// contains 0.
  Range percentile(double percent) const;
  /// Returns the part of the range within +-t, where t minimises the Kullback-Leibler divergence between the values and
  /// the values quantised within +-t. Source: Migacz, "8-bit Inference with TensorRT", GTC 2017. Unlike there, exact
  /// zeros do not count, since they are represented exactly, and the number of levels is 255 if all values have one
  /// sign and 128 otherwise.
  Range entropy() const;

 private:
  double lower_edge(size_t bin) const;
  /// The magnitudes of values other than 0, in `bins` equal bins from 0 to the largest magnitude.
  std::vector<double> magnitudes(size_t bins) const;

  Range range_;
  std::vector<int64_t> counts_;
  int64_t zeros_ = 0;
};

/// Returns the threshold, in bins from `levels` to counts.size(), that minimises the divergence (see entropy()).
size_t least_divergence(std::span<const double> counts, size_t levels);

}  // namespace kilter::quantize
