// The clock and the figures of a set of samples. All timing goes through here.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace kilter {

/// Nanoseconds of the monotonic clock.
int64_t now_ns();

/// Samples in milliseconds and what is known of them.
struct Samples {
  std::vector<double> ms;
  double median() const;
  double min() const;
  /// The value that the given share (0..1) of the samples do not exceed.
  double quantile(double share) const;
};

/// Calls `run` until `seconds` have passed and at least `min_samples` were taken, after `warm_up` calls that do not
/// count.
Samples sample(const std::function<void()>& run, double seconds, int min_samples = 10, int warm_up = 3);

/// Largest resident size of this process so far, in bytes.
int64_t peak_rss_bytes();

}  // namespace kilter
