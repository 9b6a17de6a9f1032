#include "tune/tuner/noise.h"

#include <algorithm>
#include <cmath>

namespace kilter::tune {

void LogRatios::add(double ratio) { logs_.push_back(std::log(ratio)); }

void LogRatios::add_earlier(const Ratio& ratio, int64_t samples) {
  for (int64_t i = 0; i < std::clamp<int64_t>(samples, 1, kMostEarlier); ++i) logs_.push_back(std::log(ratio.value));
}

double LogRatios::cost() const { return std::exp(mean_of_middle_half(logs_)); }

double LogRatios::spread() const { return logs_.size() < 3 ? 0 : std_dev(logs_); }

Ratio LogRatios::ratio(double noise) const {
  const double middle = mean_of_middle_half(logs_);
  const double half = 2 * std::max(spread(), noise) / std::sqrt(static_cast<double>(logs_.size()));
  return {std::exp(middle), std::exp(middle - half), std::exp(middle + half)};
}

double Beliefs::error(const LogRatios& ratios) const {
  return std::max(ratios.spread(), noise_) / std::sqrt(static_cast<double>(ratios.size()));
}

void Beliefs::add(const LogRatios& ratios) {
  const double x = std::log(ratios.cost()), e = error(ratios);
  if (ratios.cost() > kWorst) return;
  count_ += 1, sum_ += x, squares_ += x * x, errors_ += e * e;
}

double Beliefs::cost(const LogRatios& ratios) const {
  if (count_ < 3 || ratios.cost() > kWorst) return ratios.cost();
  constexpr double kLeastVariance = 1e-4;  // costs of one task differ by a percent at least
  const double mean = sum_ / count_;
  const double own = std::max(squares_ / count_ - mean * mean - errors_ / count_, kLeastVariance);
  const double noise = error(ratios) * error(ratios);
  return std::exp((own * std::log(ratios.cost()) + noise * mean) / (own + noise));
}

double typical_noise(std::vector<double> spreads, double fallback) {
  std::erase_if(spreads, [](double s) { return s <= 0; });
  return spreads.size() < 3 ? fallback : median(spreads);
}

}  // namespace kilter::tune
