// Hardware counters of one thread through perf_event_open: cycles, instructions, cache misses, stalled cycles.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kilter {

/// Counts since the counters were opened, or between two readings. A field is empty if the machine has no such counter.
struct CounterValues {
  std::optional<int64_t> cycles, instructions, cache_misses, stalled_cycles;
  /// Share of the time that the group was on the processor. Below 1, the counts were scaled up accordingly.
  double counted_share = 1;
  /// The reason why the counts cannot be correct; empty when nothing contradicts them. Set by check_counters.
  std::string invalid;
};

/// Returns after - before, field by field; a field is empty if either one is.
CounterValues difference(const CounterValues& before, const CounterValues& after);
/// Returns a + b, for the threads of one layer. A field is empty if either one is; the smaller share is kept.
CounterValues sum(const CounterValues& a, const CounterValues& b);

/// Marks counts that cannot be correct: more cycles than `ms` at `highest_ghz` on `threads` threads allow (with 2 % for
/// the difference of the clocks), more than `threads` * 16 instructions per cycle, more stalled cycles than cycles, a
/// negative count, or a group that was counted for less than half of the time. A `highest_ghz` of 0 means "not known".
CounterValues check_counters(CounterValues values, double ms, double highest_ghz, int threads);

/// A group of counters for one thread, user space only.
class Counters {
 public:
  /// `tid` 0 is the calling thread. Never throws: see available().
  explicit Counters(pid_t tid = 0);
  ~Counters();
  Counters(Counters&& other) noexcept;
  Counters& operator=(Counters&& other) noexcept;

  bool available() const { return !files_.empty(); }
  /// Returns one line for the user; empty when available: "no hardware counters: ... ; do ...".
  const std::string& why_not() const { return why_not_; }
  /// Returns the counts so far; all fields are empty when not available.
  CounterValues read() const;

 private:
  std::vector<int> files_;  // the group's leader first
  std::vector<int> kinds_;  // index in the table of events, by position in the group
  std::string why_not_;
};

/// Returns the line of why_not() for an error of perf_event_open and the system's paranoid level (-1 to 4; nothing:
/// unknown).
std::string counters_reason(int error, std::optional<int> paranoid);

/// Returns the highest clock of this machine in GHz: cpufreq's maximum if the system reports it, otherwise 5 % above
/// the highest clock that the reference kernel shows now, since boost varies.
double highest_clock_ghz();

}  // namespace kilter
