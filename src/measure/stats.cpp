#include "measure/stats.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/random.h"

namespace kilter {
namespace {

std::vector<double> sorted(std::span<const double> values) {
  std::vector<double> copy(values.begin(), values.end());
  std::sort(copy.begin(), copy.end());
  return copy;
}

double quantile_of_sorted(std::span<const double> values, double share) {
  const double at = std::clamp(share, 0.0, 1.0) * static_cast<double>(values.size() - 1);
  const auto low = static_cast<size_t>(at);
  const size_t high = std::min(low + 1, values.size() - 1);
  return values[low] + (at - static_cast<double>(low)) * (values[high] - values[low]);
}

/// Returns the mean of the values between the quarter points; partitions `values` on the way.
double middle_half(std::span<double> values) {
  const size_t n = values.size();
  const double cut = static_cast<double>(n) / 4;
  const auto whole = static_cast<size_t>(cut);
  const double border = 1 - (cut - static_cast<double>(whole));  // weight of the first and last value inside
  const auto at = [&](size_t i) { return values.begin() + static_cast<std::ptrdiff_t>(i); };
  const size_t last = n - 1 - whole;
  std::nth_element(at(0), at(whole), values.end());
  if (last > whole) std::nth_element(at(whole + 1), at(last), values.end());
  if (last == whole) return values[whole];
  const double inner = std::accumulate(at(whole + 1), at(last), 0.0);
  const double weight = static_cast<double>(n) / 2;
  return (inner + border * (values[whole] + values[last])) / weight;
}

/// Returns the quantile of N(0, 1) by bisection of erfc; p in (0, 0.5].
double normal_quantile(double p) {
  double low = -40;
  double high = 0;
  for (int i = 0; i < 200; ++i) {
    const double middle = (low + high) / 2;
    (std::erfc(-middle / std::sqrt(2.0)) / 2 < p ? low : high) = middle;
  }
  return (low + high) / 2;
}

/// Returns Student's t with `freedom` degrees from the normal quantile `z`: the first terms of Fisher and Cornish
/// (1960).
double student_quantile(double z, double freedom) {
  const double z3 = z * z * z;
  const double z5 = z3 * z * z;
  return z + (z3 + z) / (4 * freedom) + (5 * z5 + 16 * z3 + 3 * z) / (96 * freedom * freedom);
}

/// Returns the percentile of the resampled estimates to use for the lower end. Bootstrap percentiles are those of a
/// normal distribution whose variance is too small by (n - 1) / n. Student's t with the corrected variance replaces
/// them.
double lower_share(double confidence, size_t n) {
  const double freedom = static_cast<double>(n - 1);
  const double z = normal_quantile((1 - confidence) / 2);
  const double t = student_quantile(z, freedom) * std::sqrt(static_cast<double>(n) / freedom);
  return std::erfc(-t / std::sqrt(2.0)) / 2;
}

void check(size_t n, const BootstrapOptions& options) {
  require(n >= 2, "an interval needs two rounds or more, got {}", n);
  require(options.resamples >= 100, "an interval needs 100 resamples or more, got {}", options.resamples);
  require(options.confidence > 0 && options.confidence < 1, "a confidence is between 0 and 1, got {}",
          options.confidence);
}

Ratio interval(double value, std::vector<double> estimates, size_t n, const BootstrapOptions& options) {
  std::sort(estimates.begin(), estimates.end());
  const double tail = lower_share(options.confidence, n);
  return {value, quantile_of_sorted(estimates, tail), quantile_of_sorted(estimates, 1 - tail)};
}

/// Returns one of `n` indices, chosen by the bits of a draw.
size_t drawn(uint64_t bits, size_t n) { return static_cast<size_t>((bits >> 32) * n >> 32); }

/// Returns the interval of mean_of_middle_half(values).
Ratio bootstrap(std::span<const double> values, const BootstrapOptions& options) {
  const size_t n = values.size();
  check(n, options);
  const Random random(options.seed);
  std::vector<double> resample(n);
  std::vector<double> estimates(static_cast<size_t>(options.resamples));
  uint64_t next = 0;
  for (double& estimate : estimates) {
    for (double& value : resample) value = values[drawn(random.bits(next++), n)];
    estimate = middle_half(resample);
  }
  return interval(mean_of_middle_half(values), std::move(estimates), n, options);
}

}  // namespace

double mean(std::span<const double> values) {
  require(!values.empty(), "no samples were taken");
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double std_dev(std::span<const double> values) {
  const double centre = mean(values);
  if (values.size() == 1) return 0;
  double sum = 0;
  for (double v : values) sum += (v - centre) * (v - centre);
  return std::sqrt(sum / static_cast<double>(values.size() - 1));
}

double quantile(std::span<const double> values, double share) {
  require(!values.empty(), "no samples were taken");
  return quantile_of_sorted(sorted(values), share);
}

double median(std::span<const double> values) { return quantile(values, 0.5); }

double mean_of_middle_half(std::span<const double> values) {
  require(!values.empty(), "no samples were taken");
  std::vector<double> copy(values.begin(), values.end());
  return middle_half(copy);
}

double Samples::spread() const {
  const double centre = middle_mean();
  return centre == 0 ? 0 : (quantile(0.75) - quantile(0.25)) / 2 / centre;
}

Ratio paired_ratio(std::span<const double> a, std::span<const double> b, const BootstrapOptions& options) {
  require(a.size() == b.size(), "a ratio of pairs needs sets of the same size, got {} and {}", a.size(), b.size());
  std::vector<double> logs(a.size());
  for (size_t i = 0; i < a.size(); ++i) {
    require(a[i] > 0 && b[i] > 0, "a ratio needs times above 0, got {} and {} in round {}", a[i], b[i], i);
    logs[i] = std::log(b[i] / a[i]);
  }
  const Ratio log_ratio = bootstrap(logs, options);
  return {std::exp(log_ratio.value), std::exp(log_ratio.low), std::exp(log_ratio.high)};
}

Ratio bootstrap_mean(std::span<const double> values, const BootstrapOptions& options) {
  return bootstrap(values, options);
}

Ratio bootstrap_of(size_t count, const std::function<double(std::span<const size_t>)>& estimate,
                   const BootstrapOptions& options) {
  check(count, options);
  std::vector<size_t> picks(count);
  std::iota(picks.begin(), picks.end(), size_t{0});
  const double value = estimate(picks);
  const Random random(options.seed);
  std::vector<double> estimates;
  uint64_t next = 0;
  for (int i = 0; i < options.resamples; ++i) {
    for (size_t& pick : picks) pick = drawn(random.bits(next++), count);
    std::sort(picks.begin(), picks.end());
    estimates.push_back(estimate(picks));
  }
  return interval(value, std::move(estimates), count, options);
}

}  // namespace kilter
