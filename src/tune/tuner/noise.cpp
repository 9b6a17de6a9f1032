#include "tune/tuner/noise.h"

#include <algorithm>
#include <cmath>

namespace kilter::tune {

void LogRatios::add(double ratio) { logs_.push_back(std::log(ratio)); }

void LogRatios::add_earlier(const Ratio& ratio, int64_t samples) {
  for (int64_t i = 0; i < std::clamp<int64_t>(samples, 1, kMostEarlier); ++i) logs_.push_back(std::log(ratio.value));
}

double LogRatios::log_cost() const { return mean_of_middle_half(logs_); }

double LogRatios::spread() const { return logs_.size() < 3 ? 0 : std_dev(logs_); }

double LogRatios::error(double noise) const {
  return std::max(spread(), noise) / std::sqrt(static_cast<double>(logs_.size()));
}

Ratio LogRatios::ratio(double noise) const {
  const double middle = log_cost(), half = 2 * error(noise);
  return {std::exp(middle), std::exp(middle - half), std::exp(middle + half)};
}

void Beliefs::add(const LogRatios& ratios) {
  const double x = ratios.log_cost(), e = ratios.error(noise_);
  if (std::exp(x) > kWorst) return;
  count_ += 1, sum_ += x, squares_ += x * x, errors_ += e * e;
}

double Beliefs::cost(const LogRatios& ratios) const {
  const double x = ratios.log_cost(), e = ratios.error(noise_);
  if (count_ < 3 || std::exp(x) > kWorst) return std::exp(x);
  constexpr double kLeastVariance = 1e-4;  // costs of one task differ by a percent at least
  const double mean = sum_ / count_;
  const double own = std::max(squares_ / count_ - mean * mean - errors_ / count_, kLeastVariance);
  return std::exp((own * x + e * e * mean) / (own + e * e));
}

double typical_noise(std::vector<double> spreads, double fallback) {
  std::erase_if(spreads, [](double s) { return s <= 0; });
  return spreads.size() < 3 ? fallback : median(spreads);
}

}  // namespace kilter::tune
