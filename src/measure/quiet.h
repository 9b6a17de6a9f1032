// Whether the machine was quiet while a sample was taken: steal time, waiting for a CPU, involuntary switches, clock.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace kilter {

/// What was counted up to one moment. The counters only grow.
struct QuietReading {
  double steal_ms = 0;    ///< all CPUs, /proc/stat; counted by the kernel in steps of about 10 ms
  double wait_ms = 0;     ///< threads of the process were ready to run without a CPU, /proc/self/task/*/schedstat
  int64_t switches = 0;   ///< involuntary context switches of all threads of the process, getrusage
  double chain_ns = 0;    ///< time of the reference kernel now: a fixed chain of dependent instructions
  bool has_steal = true;  ///< false where the kernel does not tell
  bool has_wait = true;
};

/// Reads all of it; takes some 30 us, and 3 us for each thread. What this system does not tell counts as zero. Threads
/// that end between two readings take their waiting with them.
QuietReading read_quiet();

/// Time of the reference kernel in nanoseconds: the shortest of `tries` runs of 2^14 dependent one-cycle instructions.
double reference_chain_ns(int tries = 3);
/// Nanoseconds of 2^11 one-cycle instructions that do not wait for each other, the shortest of four tries; takes about
/// a microsecond. They take up to twice as long while another hardware thread works on the same core, which a chain of
/// dependent instructions does not notice.
double reference_width_ns();
/// The clock that this core runs at now, from the reference kernel; 0 where its instructions are not known (not
/// x86-64).
double core_clock_ghz(int tries = 20);

/// From which amounts on a sample counts as disturbed.
struct QuietLimits {
  double steal_share = 0.01;         ///< of the sample's wall time on one CPU
  double wait_share = 0.01;          ///< of the sample's wall time
  double switches_per_second = 200;  ///< involuntary, of all threads of the process: one in a sample below 5 ms
  double drift = 0.03;               ///< of the reference kernel against its usual time
};

struct Disturbance {
  double wall_ms = 0;
  double steal_ms = 0;
  double wait_ms = 0;
  int64_t switches = 0;
  double drift = 0;  ///< reference kernel at the slower end of the sample / usual - 1
  bool stolen = false, waited = false, switched = false, drifted = false;

  bool disturbed() const { return stolen || waited || switched || drifted; }
  /// "waited 3.1 ms for a CPU, 2 involuntary context switches"; empty when not disturbed.
  std::string why() const;
  /// How much of the sample's time the disturbances may account for, roughly: to find the least disturbed samples.
  double weight() const;
  /// Both samples as one: amounts add up, the larger drift, all reasons.
  void add(const Disturbance& other);
};

/// How many samples were disturbed, and by what.
struct DisturbedCount {
  int64_t taken = 0, disturbed = 0;
  int64_t waited = 0, stolen = 0, switched = 0, drifted = 0;  ///< of the disturbed ones; one may count several times

  /// Several samples that were judged as one.
  void add(const Disturbance& disturbance, int64_t samples = 1);
  /// "waited for a CPU in 12, the clock differed in 3", the commonest first; empty where nothing was disturbed.
  std::string why() const;
};

/// Judges one sample after the other: start(), the sample, stop(), which starts the next. What the reference kernel
/// usually takes is the median of the last 31 samples' readings, so that a lasting change of the clock stops counting
/// as a disturbance.
class QuietWatch {
 public:
  /// `read` replaces the readings of the machine, for tests.
  explicit QuietWatch(QuietLimits limits = {}, std::function<QuietReading()> read = read_quiet);
  ~QuietWatch();
  QuietWatch(QuietWatch&&) noexcept;
  QuietWatch& operator=(QuietWatch&&) noexcept;

  /// What happened before does not count.
  void start();
  /// What happened since start() or the last stop(); `wall_ms` is the length of the sample.
  Disturbance stop(double wall_ms);
  /// The reference kernel's usual time so far, 0 before the first sample.
  double usual_chain_ns() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kilter
