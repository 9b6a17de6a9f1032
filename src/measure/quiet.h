// Determines whether the machine was quiet during a sample: steal time, waiting for a CPU, involuntary switches, clock.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace kilter {

/// Counter values at one moment. The counters only grow.
struct QuietReading {
  double steal_ms = 0;    ///< all CPUs, from /proc/stat; the kernel counts in steps of about 10 ms
  double wait_ms = 0;     ///< time that threads of the process were ready to run without a CPU,
                          ///< /proc/self/task/*/schedstat
  int64_t switches = 0;   ///< involuntary context switches of all threads of the process, getrusage
  double chain_ns = 0;    ///< time of the reference kernel now: a fixed chain of dependent instructions
  bool has_steal = true;  ///< false if the kernel does not report it
  bool has_wait = true;
};

/// Reads all counters; takes about 30 us plus 3 us per thread. Counters that this system does not report are zero. When
/// a thread ends between two readings, its waiting time is lost.
QuietReading read_quiet();

/// Returns the time of the reference kernel in nanoseconds: the shortest of `tries` runs of 2^14 dependent one-cycle
/// instructions.
double reference_chain_ns(int tries = 3);
/// Returns the nanoseconds of 2^11 independent one-cycle instructions, the shortest of four tries; takes about a
/// microsecond. They take up to twice as long while another hardware thread works on the same core, which does not slow
/// a chain of dependent instructions.
double reference_width_ns();
/// Returns the clock that this core runs at now, from the reference kernel; 0 if the timing of its instructions is not
/// known (not x86-64).
double core_clock_ghz(int tries = 20);

/// The amounts from which a sample counts as disturbed.
struct QuietLimits {
  double steal_share = 0.01;         ///< of the sample's wall time on one CPU
  double wait_share = 0.01;          ///< of the sample's wall time
  double switches_per_second = 200;  ///< involuntary, all threads of the process; one is enough in samples below 5 ms
  double drift = 0.03;               ///< deviation of the reference kernel's time (chain_ns) from its usual time
};

struct Disturbance {
  double wall_ms = 0;
  double steal_ms = 0;
  double wait_ms = 0;
  int64_t switches = 0;
  double drift = 0;  ///< deviation of the reference kernel's time from the usual one, as a share; above 0: slower
  bool stolen = false, waited = false, switched = false, drifted = false;

  bool disturbed() const { return stolen || waited || switched || drifted; }
  /// Returns "waited 3.1 ms for a CPU, 2 involuntary context switches"; empty when not disturbed.
  std::string why() const;
  /// Returns roughly how much of the sample's time the disturbances may account for, to find the least disturbed
  /// samples.
  double weight() const;
  /// Combines two samples into one: adds the amounts, keeps the larger drift and all reasons.
  void add(const Disturbance& other);
};

/// How DisturbedCount::why() names samples during which the clock rate was not the usual one.
constexpr const char* kOtherClock = "a different clock rate in";

/// Counts of disturbed samples, in all and by cause.
struct DisturbedCount {
  int64_t taken = 0, disturbed = 0;
  int64_t waited = 0, stolen = 0, switched = 0, drifted = 0;  ///< among the disturbed ones; one sample may count
                                                              ///< several times

  /// Adds one judgement for `samples` samples.
  void add(const Disturbance& disturbance, int64_t samples = 1);
  /// Returns "waited for a CPU in 12, the clock differed in 3", most frequent first; empty if nothing was disturbed.
  std::string why() const;
};

/// Judges consecutive samples: call start(), take the sample, call stop(), which starts the next. The usual time of the
/// reference kernel is the median of the last 31 samples' readings, so that a lasting change of the clock stops
/// counting as a disturbance.
class QuietWatch {
 public:
  /// `read` replaces the readings of the machine in tests.
  explicit QuietWatch(QuietLimits limits = {}, std::function<QuietReading()> read = read_quiet);
  ~QuietWatch();
  QuietWatch(QuietWatch&&) noexcept;
  QuietWatch& operator=(QuietWatch&&) noexcept;

  /// Starts a sample. Earlier events do not count.
  void start();
  /// Ends the sample, which lasted `wall_ms`, and returns what disturbed the machine since start() or the last stop().
  Disturbance stop(double wall_ms);
  /// Returns the reference kernel's usual time so far; 0 before the first sample.
  double usual_chain_ns() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kilter
