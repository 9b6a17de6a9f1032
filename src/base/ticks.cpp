#include "base/ticks.h"

#include <sys/prctl.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <fstream>
#include <limits>
#include <string>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace kilter {
namespace {

std::atomic<double> adopted{0};

uint64_t read_clock(clockid_t id) {
  timespec t{};
  clock_gettime(id, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000ULL + static_cast<uint64_t>(t.tv_nsec);
}

/// Readings of both clocks at the same moment, as nearly as possible.
struct Moment {
  uint64_t tick = 0;
  uint64_t ns = 0;
};

/// Returns the tightest of many bracketed readings, so that an interrupt between two reads does no harm.
Moment read_both() {
  Moment best;
  uint64_t tightest = std::numeric_limits<uint64_t>::max();
  for (int i = 0; i < 64; ++i) {
    const uint64_t before = ticks();
    const uint64_t ns = read_clock(CLOCK_MONOTONIC_RAW);
    const uint64_t after = ticks();
    if (after - before >= tightest) continue;
    tightest = after - before;
    best = {before + (after - before) / 2, ns};
  }
  return best;
}

double slope(const Moment& a, const Moment& b) {
  return static_cast<double>(b.ns - a.ns) / static_cast<double>(b.tick - a.tick);
}

/// Calibrates over two halves of about 10 ms, which must agree. If they do not (a paused virtual machine), tries again,
/// and uses the attempt whose halves agree best.
double calibrate() {
  if (!ticks_detail::kTsc) return 1;
  double best = 1;
  double smallest = std::numeric_limits<double>::max();
  for (int attempt = 0; attempt < 5 && smallest > 2e-5; ++attempt) {
    const timespec half{0, 10'000'000};
    const Moment first = read_both();
    nanosleep(&half, nullptr);
    const Moment second = read_both();
    nanosleep(&half, nullptr);
    const Moment third = read_both();
    const double difference = std::abs(slope(first, second) / slope(second, third) - 1);
    if (difference >= smallest) continue;
    smallest = difference;
    best = slope(first, third);
  }
  return best;
}

}  // namespace

bool ticks_detail::tsc_is_sound() {
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(0x80000007U, &a, &b, &c, &d) == 0 || (d & (1U << 8)) == 0) return false;
  int allowed = 0;
  if (prctl(PR_GET_TSC, &allowed) != 0 || allowed != PR_TSC_ENABLE) return false;
  // The kernel removes a counter from this list when it finds it unsteady or different between cores.
  std::ifstream list("/sys/devices/system/clocksource/clocksource0/available_clocksource");
  std::string name;
  while (list >> name) {
    if (name == "tsc") return true;
  }
#endif
  return false;
}

uint64_t ticks_detail::monotonic_ns() { return read_clock(CLOCK_MONOTONIC); }

double ns_per_tick() {
  static const double value = adopted > 0 ? adopted.load() : calibrate();
  return value;
}

void adopt_ns_per_tick(double ns) { adopted = ns; }

std::string_view tick_source() { return ticks_detail::kTsc ? "tsc" : "monotonic"; }

}  // namespace kilter
