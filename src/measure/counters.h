// Hardware counters of one thread: cycles, instructions, cache misses, stalled cycles, through perf_event_open.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kilter {

/// Counts since the counters were opened, or between two readings. Nothing where the machine does not count it.
struct CounterValues {
  std::optional<int64_t> cycles, instructions, cache_misses, stalled_cycles;
  /// Part of the time that the group was on the processor; below 1 the counts were scaled up from it.
  double counted_share = 1;
  /// Why the counts cannot be true; empty when nothing speaks against them. Set by check_counters.
  std::string invalid;
};

/// after - before, field by field; nothing where either has nothing.
CounterValues difference(const CounterValues& before, const CounterValues& after);
/// a + b, for the threads of one layer; nothing where either has nothing, the smaller share.
CounterValues sum(const CounterValues& a, const CounterValues& b);

/// Marks counts that cannot be true: more cycles than `ms` at `highest_ghz` on `threads` threads allow (with 2 % for
/// the clocks' difference), more than `threads` * 16 instructions a cycle, stalled cycles above cycles, a negative
/// count, or a group that was counted for less than half of the time. A `highest_ghz` of 0 is "not known".
CounterValues check_counters(CounterValues values, double ms, double highest_ghz, int threads);

/// A group of counters for one thread, user space only.
class Counters {
 public:
  /// `tid` 0: the calling thread. Never throws: see available().
  explicit Counters(pid_t tid = 0);
  ~Counters();
  Counters(Counters&& other) noexcept;
  Counters& operator=(Counters&& other) noexcept;

  bool available() const { return !files_.empty(); }
  /// One line for the user, empty when available: "no hardware counters: ... ; do ...".
  const std::string& why_not() const { return why_not_; }
  /// Counts so far; all nothing when not available.
  CounterValues read() const;

 private:
  std::vector<int> files_;  // the group's leader first
  std::vector<int> kinds_;  // row of the table of events, by position in the group
  std::string why_not_;
};

/// The line of why_not() for an error of perf_event_open and the system's paranoid level (-1 to 4; nothing: unknown).
std::string counters_reason(int error, std::optional<int> paranoid);

/// The highest clock of this machine in GHz: cpufreq's maximum where the system tells, else the highest clock that the
/// reference kernel shows now and 5 % more, as boost varies.
double highest_clock_ghz();

}  // namespace kilter
