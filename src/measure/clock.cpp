#include "measure/clock.h"

#include <sys/resource.h>
#include <time.h>

#include <chrono>

#include "base/ticks.h"

namespace kilter {

double now_ms() {
  static const uint64_t start = ticks();
  return ms_between(start, ticks());
}

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

double process_cpu_ms() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_nsec) * 1e-6;
}

Samples sample(const std::function<void()>& run, double seconds, int min_samples, int warm_up) {
  for (int i = 0; i < warm_up; ++i) run();
  Samples samples;
  const double end = now_ms() + seconds * 1e3;
  while (now_ms() < end || static_cast<int>(samples.ms.size()) < min_samples) {
    const uint64_t start = ticks();
    run();
    samples.ms.push_back(ms_between(start, ticks()));
  }
  return samples;
}

int64_t peak_rss_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<int64_t>(usage.ru_maxrss) * 1024;
}

}  // namespace kilter
