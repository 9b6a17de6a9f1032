#include "tune/tuner/noise.h"

#include <algorithm>
#include <cmath>

namespace kilter::tune {

void LogRatios::add(double ratio) {
  const double log = std::log(ratio);
  if (!open_) trials_.emplace_back();
  open_ = true;
  trials_.back().sum += log, ++trials_.back().count;
  logs_.push_back(log);
  fresh_.push_back(log);
}

void LogRatios::add_earlier(const Ratio& ratio, int64_t samples) {
  const int64_t count = std::clamp<int64_t>(samples, 1, kMostEarlier);
  const double log = std::log(ratio.value);
  trials_.push_back({log * static_cast<double>(count), count});
  logs_.insert(logs_.end(), static_cast<size_t>(count), log);
  open_ = false;
}

double LogRatios::log_cost() const { return mean_of_middle_half(logs_); }

double LogRatios::spread() const { return fresh_.size() < 3 ? 0 : std_dev(fresh_); }

double LogRatios::error(double noise) const {
  const double of_samples = std::max(spread(), noise) / std::sqrt(static_cast<double>(logs_.size()));
  constexpr size_t kLeastTrials = 3;
  if (trials_.size() < kLeastTrials) return of_samples;
  std::vector<double> means;
  for (const Trial& t : trials_) means.push_back(t.sum / static_cast<double>(t.count));
  return std::max(of_samples, std_dev(means) / std::sqrt(static_cast<double>(means.size())));
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
  constexpr double kLeastVariance = 1e-4;  // costs of one task differ by at least a percent
  const double mean = sum_ / count_;
  const double own = std::max(squares_ / count_ - mean * mean - errors_ / count_, kLeastVariance);
  return std::exp((own * x + e * e * mean) / (own + e * e));
}

double typical_noise(std::vector<double> spreads, double fallback) {
  std::erase_if(spreads, [](double s) { return s <= 0; });
  return spreads.size() < 3 ? fallback : median(spreads);
}

}  // namespace kilter::tune
