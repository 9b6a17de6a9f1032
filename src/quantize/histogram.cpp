#include "quantize/histogram.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace kilter::quantize {
namespace {

/// Returns the divergence of the counts quantised to `levels` levels from the counts. All counts beyond `bins` are in
/// the last bin. Infinite if the quantised counts are 0 where the counts are not.
double divergence(std::span<const double> counts, size_t bins, size_t levels, double beyond, double total) {
  double sum = 0;
  for (size_t level = 0; level < levels; ++level) {
    const size_t begin = level * bins / levels, end = (level + 1) * bins / levels;
    double in_level = 0;
    int64_t used = 0;
    for (size_t i = begin; i < end; ++i) in_level += counts[i], used += counts[i] > 0 ? 1 : 0;
    for (size_t i = begin; i < end; ++i) {
      const double p = counts[i] + (i + 1 == bins ? beyond : 0);
      if (p == 0) continue;
      if (counts[i] == 0) return INFINITY;
      const double q = in_level / static_cast<double>(used) / (total - beyond);
      sum += p / total * std::log(p / total / q);
    }
  }
  return sum;
}

}  // namespace

size_t least_divergence(std::span<const double> counts, size_t levels) {
  const double total = std::accumulate(counts.begin(), counts.end(), 0.0);
  size_t best = counts.size();
  double least = INFINITY, beyond = 0;
  for (size_t bins = counts.size(); bins >= levels; --bins) {
    const double found = divergence(counts, bins, levels, beyond, total);
    if (found < least) least = found, best = bins;
    beyond += counts[bins - 1];
  }
  return best;
}

Histogram::Histogram(const Range& range) : range_(range), counts_(kBins) {
  range_.low = std::min(range_.low, 0.0), range_.high = std::max(range_.high, 0.0);
}

void Histogram::add(std::span<const float> values) {
  const double width = range_.high - range_.low;
  if (width == 0) {
    zeros_ += static_cast<int64_t>(values.size());
    return;
  }
  const double factor = static_cast<double>(kBins) / width;
  for (const float v : values) {
    if (v == 0) {
      ++zeros_;
      continue;
    }
    const double bin = (static_cast<double>(v) - range_.low) * factor;
    ++counts_[static_cast<size_t>(std::clamp(bin, 0.0, static_cast<double>(kBins - 1)))];
  }
}

double Histogram::lower_edge(size_t bin) const {
  return range_.low + (range_.high - range_.low) * static_cast<double>(bin) / static_cast<double>(kBins);
}

Range Histogram::percentile(double percent) const {
  const int64_t total = std::accumulate(counts_.begin(), counts_.end(), zeros_);
  const double left_out = static_cast<double>(total) * (100 - percent) / 200;
  Range found{0, 0};
  double below = 0, above = 0;
  for (size_t i = 0; i < kBins && lower_edge(i) < 0; ++i) {
    below += static_cast<double>(counts_[i]);
    if (below <= left_out) continue;
    found.low = lower_edge(i);
    break;
  }
  for (size_t i = kBins; i > 0 && lower_edge(i) > 0; --i) {
    above += static_cast<double>(counts_[i - 1]);
    if (above <= left_out) continue;
    found.high = lower_edge(i);
    break;
  }
  return found;
}

std::vector<double> Histogram::magnitudes(size_t bins) const {
  const double most = std::max(-range_.low, range_.high);
  std::vector<double> made(bins);
  for (size_t i = 0; i < kBins; ++i) {
    const double centre = (lower_edge(i) + lower_edge(i + 1)) / 2;
    const auto at = static_cast<size_t>(std::abs(centre) / most * static_cast<double>(bins));
    made[std::min(at, bins - 1)] += static_cast<double>(counts_[i]);
  }
  return made;
}

Range Histogram::entropy() const {
  if (range_.low == range_.high) return range_;
  const bool one_sign = range_.low == 0 || range_.high == 0;
  constexpr size_t kMagnitudes = kBins / 2;
  const std::vector<double> counts = magnitudes(kMagnitudes);
  const size_t bins = least_divergence(counts, one_sign ? 255 : 128);
  const double most = std::max(-range_.low, range_.high) * static_cast<double>(bins) / kMagnitudes;
  return {std::max(range_.low, -most), std::min(range_.high, most)};
}

}  // namespace kilter::quantize
