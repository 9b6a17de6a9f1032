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

double typical_noise(std::vector<double> spreads, double fallback) {
  std::erase_if(spreads, [](double s) { return s <= 0; });
  return spreads.size() < 3 ? fallback : median(spreads);
}

}  // namespace kilter::tune
