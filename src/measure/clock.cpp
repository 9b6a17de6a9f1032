#include "measure/clock.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/error.h"

namespace kilter {

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

double Samples::quantile(double share) const {
  require(!ms.empty(), "no samples were taken");
  std::vector<double> sorted = ms;
  std::sort(sorted.begin(), sorted.end());
  const double at = share * static_cast<double>(sorted.size() - 1);
  const auto low = static_cast<size_t>(std::floor(at));
  const size_t high = std::min(low + 1, sorted.size() - 1);
  return sorted[low] + (at - static_cast<double>(low)) * (sorted[high] - sorted[low]);
}

double Samples::median() const { return quantile(0.5); }
double Samples::min() const { return quantile(0); }

Samples sample(const std::function<void()>& run, double seconds, int min_samples, int warm_up) {
  for (int i = 0; i < warm_up; ++i) run();
  Samples samples;
  const int64_t end = now_ns() + static_cast<int64_t>(seconds * 1e9);
  while (now_ns() < end || static_cast<int>(samples.ms.size()) < min_samples) {
    const int64_t start = now_ns();
    run();
    samples.ms.push_back(static_cast<double>(now_ns() - start) * 1e-6);
  }
  return samples;
}

int64_t peak_rss_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<int64_t>(usage.ru_maxrss) * 1024;
}

}  // namespace kilter
