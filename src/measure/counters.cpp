#include "measure/counters.h"

#include <fmt/format.h>
#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include "measure/quiet.h"

namespace kilter {
namespace {

struct Event {
  uint64_t config;
  std::optional<int64_t> CounterValues::* field;
};
/// Cycles come first: without them the group is not opened.
constexpr std::array kEvents = {
    Event{PERF_COUNT_HW_CPU_CYCLES, &CounterValues::cycles},
    Event{PERF_COUNT_HW_INSTRUCTIONS, &CounterValues::instructions},
    Event{PERF_COUNT_HW_CACHE_MISSES, &CounterValues::cache_misses},
    Event{PERF_COUNT_HW_STALLED_CYCLES_BACKEND, &CounterValues::stalled_cycles},
};

int open_event(uint64_t config, pid_t tid, int leader) {
  perf_event_attr attr{};
  attr.size = sizeof attr;
  attr.type = PERF_TYPE_HARDWARE;
  attr.config = config;
  attr.exclude_kernel = 1;
  attr.exclude_hv = 1;
  attr.read_format = PERF_FORMAT_GROUP | PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
  return static_cast<int>(syscall(SYS_perf_event_open, &attr, tid, -1, leader, PERF_FLAG_FD_CLOEXEC));
}

std::optional<int> paranoid_level() {
  std::ifstream file("/proc/sys/kernel/perf_event_paranoid");
  int level = 0;
  return file >> level ? std::optional<int>(level) : std::nullopt;
}

template <class Combine>
CounterValues combine(const CounterValues& a, const CounterValues& b, Combine&& combine_two) {
  CounterValues result;
  for (const Event& event : kEvents) {
    const auto& x = a.*event.field;
    const auto& y = b.*event.field;
    if (x && y) result.*event.field = combine_two(*x, *y);
  }
  result.counted_share = std::min(a.counted_share, b.counted_share);
  result.invalid = a.invalid.empty() ? b.invalid : a.invalid;
  return result;
}

}  // namespace

CounterValues difference(const CounterValues& before, const CounterValues& after) {
  return combine(before, after, [](int64_t x, int64_t y) { return y - x; });
}

CounterValues sum(const CounterValues& a, const CounterValues& b) {
  return combine(a, b, [](int64_t x, int64_t y) { return x + y; });
}

CounterValues check_counters(CounterValues values, double ms, double highest_ghz, int threads) {
  const auto negative = [&](const Event& event) { return (values.*event.field).value_or(0) < 0; };
  const double cycles = static_cast<double>(values.cycles.value_or(0));
  const double possible = ms * 1e6 * highest_ghz * threads * 1.02;
  if (std::any_of(kEvents.begin(), kEvents.end(), negative)) {
    values.invalid = "a count is negative";
  } else if (values.counted_share < 0.5) {
    values.invalid = fmt::format("counted for only {:.0f} % of the time", values.counted_share * 100);
  } else if (highest_ghz > 0 && values.cycles && cycles > possible) {
    values.invalid = fmt::format("{:.0f} cycles, but {:.3f} ms at {:.2f} GHz on {} threads allow at most {:.0f}",
                                 cycles, ms, highest_ghz, threads, possible);
  } else if (values.cycles && values.stalled_cycles && *values.stalled_cycles > *values.cycles) {
    values.invalid = fmt::format("{} stalled cycles of {}", *values.stalled_cycles, *values.cycles);
  } else if (values.cycles && values.instructions && static_cast<double>(*values.instructions) > cycles * 16) {
    values.invalid = fmt::format("{} instructions in {} cycles", *values.instructions, *values.cycles);
  }
  return values;
}

Counters::Counters(pid_t tid) {
  for (size_t i = 0; i < kEvents.size(); ++i) {
    const int file = open_event(kEvents[i].config, tid, files_.empty() ? -1 : files_.front());
    if (file < 0 && files_.empty()) {
      why_not_ = counters_reason(errno, paranoid_level());
      return;
    }
    if (file < 0) continue;
    files_.push_back(file);
    kinds_.push_back(static_cast<int>(i));
  }
}

Counters::~Counters() {
  for (auto file = files_.rbegin(); file != files_.rend(); ++file) close(*file);
}

Counters::Counters(Counters&& other) noexcept
    : files_(std::exchange(other.files_, {})), kinds_(std::move(other.kinds_)), why_not_(std::move(other.why_not_)) {}

Counters& Counters::operator=(Counters&& other) noexcept {
  std::swap(files_, other.files_);
  std::swap(kinds_, other.kinds_);
  std::swap(why_not_, other.why_not_);
  return *this;
}

CounterValues Counters::read() const {
  CounterValues values;
  if (files_.empty()) return values;
  // Number of events, time enabled, time running, then the values in the order of opening.
  std::array<uint64_t, 3 + kEvents.size()> data{};
  const ssize_t size = ::read(files_.front(), data.data(), sizeof data);
  if (size < static_cast<ssize_t>((3 + kinds_.size()) * sizeof(uint64_t)) || data[2] == 0) return values;
  values.counted_share = data[1] == 0 ? 1 : static_cast<double>(data[2]) / static_cast<double>(data[1]);
  for (size_t i = 0; i < kinds_.size(); ++i) {
    const double scaled = static_cast<double>(data[3 + i]) / values.counted_share;
    values.*kEvents[static_cast<size_t>(kinds_[i])].field = static_cast<int64_t>(scaled);
  }
  return values;
}

std::string counters_reason(int error, std::optional<int> paranoid) {
  const std::string level = paranoid ? std::to_string(*paranoid) : "unknown";
  switch (error) {
    case ENOENT:
    case ENODEV:
    case EOPNOTSUPP:
      return "no hardware counters: this machine offers none (a virtual machine without a PMU?)";
    case EACCES:
    case EPERM:
      return fmt::format(
          "no hardware counters: not allowed (kernel.perf_event_paranoid is {}, or a container forbids the call); to "
          "allow it, run `sysctl kernel.perf_event_paranoid=2` (or less) as root",
          level);
    case ENOSYS:
      return "no hardware counters: this kernel has no perf_event_open";
    case EMFILE:
      return "no hardware counters: too many open files; raise `ulimit -n`";
    default:
      return fmt::format("no hardware counters: perf_event_open failed: {}", std::strerror(error));
  }
}

double highest_clock_ghz() {
  std::ifstream file("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq");
  double khz = 0;
  if (file >> khz && khz > 0) return khz * 1e-6;
  return core_clock_ghz() * 1.05;
}

}  // namespace kilter
