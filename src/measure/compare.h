// Comparison of candidates that is robust against other activity on the machine: interleaved, paired runs in random
// order, until the answer is known.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "measure/clock.h"
#include "measure/quiet.h"
#include "measure/stats.h"

namespace kilter {

struct Candidate {
  std::string name;
  std::function<void()> run;
  std::function<void()> prepare = {};  ///< runs untimed before each call: flushes or rotates buffers
  /// Replaces `run` for work in another process: makes this many calls and returns the time of one in milliseconds.
  std::function<double(int64_t calls)> timed = {};
  /// Returns the CPU time that work in another process has used so far. If empty, the CPU time of this process counts.
  std::function<double()> cpu_ms = {};
};

struct CompareOptions {
  double max_seconds = 10;           ///< budget, warm-up included
  double target_half_width = 0.005;  ///< half-width of the interval of each ratio to the first candidate
  bool stop_when_different = true;   ///< stop early once every interval clearly excludes 1
  int min_rounds = 30;               ///< minimum number of rounds; five once the budget is spent
  int max_rounds = 100000;
  double slice_ms = 1;  ///< calls shorter than this are repeated to fill it
  int retakes = 3;      ///< how often a disturbed slice is retaken, as long as that helps
  int warm_up = 3;      ///< calls of each candidate that do not count
  double confidence = 0.95;
  uint64_t seed = 1;  ///< for the order and the intervals
  QuietLimits quiet;
  // For tests: the time in milliseconds and the machine's state.
  ClockMs clock = now_ms;
  ClockMs cpu_clock = process_cpu_ms;
  std::function<QuietReading()> read_quiet = kilter::read_quiet;
};

/// One round runs every candidate once (a slice) in random order, then once more in the opposite order: A B C C B A.
struct Round {
  std::vector<double> ms;      ///< by candidate: milliseconds per call, mean of both slices
  std::vector<double> cpu_ms;  ///< CPU time per call, of all threads together
  std::vector<int> order;      ///< candidates in the order of the first half
  Disturbance disturbance;
  bool kept = true;
};

struct Comparison {
  std::vector<std::string> names;
  std::vector<Samples> samples;      ///< by candidate, of the kept rounds; the same index is the same round
  std::vector<Samples> cpu_samples;  ///< CPU time, like `samples`
  std::vector<int64_t> calls;        ///< by candidate: calls in one slice
  std::vector<Round> rounds;         ///< all, in order
  int64_t taken = 0;                 ///< number of rounds
  int64_t kept = 0;                  ///< rounds that the figures are computed from
  int64_t disturbed = 0;             ///< rounds that the machine disturbed even after retakes
  DisturbedCount disturbances;       ///< causes of the disturbances
  int64_t retaken = 0;               ///< number of slices retaken
  double seconds = 0;
  std::string stopped_because;  ///< "half-width 0.4 % (0.5 % wanted)", "time is up: ..."
  std::string dropped;          ///< the rule applied to disturbed rounds, in words
  double confidence = 0.95;
  uint64_t seed = 1;

  /// Returns the time of candidate `b` over that of candidate `a`; above 1, `b` is slower. The interval is computed for
  /// the higher confidence 1 - 0.4 (1 - confidence). It is therefore valid at `confidence`, although it was evaluated
  /// every time the number of rounds had grown by a quarter and the comparison stopped when it was narrow (simulated
  /// for 30 to 400 rounds: 96 to 98 % of intervals at 98 % contain the truth, 91 to 95 % of those at 95 %).
  Ratio ratio(size_t a, size_t b) const;
  /// Returns the interval of a candidate's own time in milliseconds.
  Ratio time_ms(size_t candidate) const;
  /// Return the ratio and the interval of CPU time; nothing if a candidate's CPU time is 0 or could not be read.
  std::optional<Ratio> cpu_ratio(size_t a, size_t b) const;
  std::optional<Ratio> cpu_ms(size_t candidate) const;
};

/// Compares two or more candidates. A disturbed slice is retaken immediately. A round with a slice that stayed
/// disturbed is dropped for all candidates alike; when fewer than min_rounds are undisturbed, the min_rounds least
/// disturbed ones are kept. Disturbances are judged only from the machine's counters, never from the measured times.
/// Stops when every ratio to the first candidate is known: its half-width reached the target, or its interval excluded
/// 1 twice (twice, since it is evaluated many times). Also stops when the budget is spent. Exceptions of a candidate
/// propagate. Throws internal for fewer than two candidates.
Comparison compare(const std::vector<Candidate>& candidates, const CompareOptions& options = {});

}  // namespace kilter
