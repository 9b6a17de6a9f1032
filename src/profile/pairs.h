// The figures of passes that were measured in pairs: one with profiling, one without.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "measure/stats.h"
#include "profile/profile.h"

namespace kilter::profile {

/// The times of a pair in milliseconds; the passes of every profiler have them.
struct PairTimes {
  double total = 0;  ///< of the profiled pass, by the monotonic clock
  double plain = 0;  ///< of the plain pass
  double sum = 0;    ///< of the rows
};

/// Sorts pairs by the time of both passes together. Returns the sum divided by the plain time, with its interval, over
/// the middle half, which keep_middle() keeps.
template <class Pass>
Ratio sum_over_plain(std::vector<Pass>& passes, uint64_t seed) {
  std::ranges::stable_sort(passes, {}, [](const Pass& p) { return p.total + p.plain; });
  return bootstrap_of(passes.size(),
                      [&](std::span<const size_t> picks) {
                        double sum = 0, plain = 0;
                        for (size_t i = picks.size() / 4; i < picks.size() - picks.size() / 4; ++i)
                          sum += passes[picks[i]].sum, plain += passes[picks[i]].plain;
                        return sum / plain;
                      },
                      {.resamples = 400, .seed = seed});
}

/// Removes a quarter of the sorted pairs at each end.
template <class Pass>
void keep_middle(std::vector<Pass>& passes) {
  const auto quarter = static_cast<std::ptrdiff_t>(passes.size() / 4);
  passes = {passes.begin() + quarter, passes.end() - quarter};
}

template <class Pass, class Get>
Time over_passes(const std::vector<Pass>& passes, Get get) {
  std::vector<double> values;
  for (const Pass& p : passes) values.push_back(get(p));
  return {mean(values), quantile(values, 0.1), quantile(values, 0.9)};
}

}  // namespace kilter::profile
