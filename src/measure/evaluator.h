// Time evaluator: repeated measurements of one function, with the options and figures that users of such evaluators
// know.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "measure/clock.h"
#include "measure/quiet.h"
#include "measure/stats.h"

namespace kilter {

struct EvaluatorOptions {
  int64_t number = 1;                  ///< calls in one measurement, which is their mean
  int64_t repeat = 10;                 ///< measurements
  double min_repeat_ms = 0;            ///< `number` grows until a measurement takes this long
  int warm_up = 1;                     ///< calls that do not count
  std::function<void()> prepare = {};  ///< before each measurement, not timed; with number > 1 only its first call
                                       ///< finds what was prepared, such as flushed caches
  QuietLimits quiet;
  // For tests.
  ClockMs clock = now_ms;
  std::function<QuietReading()> read_quiet = kilter::read_quiet;
};

struct Evaluation {
  Samples samples;           ///< milliseconds per call, one value a measurement, all `repeat` of them
  int64_t number = 1;        ///< calls in a measurement, as min_repeat_ms made it
  int64_t disturbed = 0;     ///< measurements that the machine disturbed
  std::string disturbed_by;  ///< of the first disturbed one, in words
  DisturbedCount disturbed_count;
  Samples quiet;  ///< the undisturbed ones; all when fewer than half are

  double mean() const { return samples.mean(); }
  double std_dev() const { return samples.std_dev(); }
  double median() const { return samples.median(); }
  double min() const { return samples.min(); }
  double max() const { return samples.quantile(1); }
  /// Kilter's own estimate: mean of the middle half of `quiet`, and its spread as Samples::spread gives it.
  double estimate() const { return quiet.middle_mean(); }
  double spread() const { return quiet.spread(); }
};

/// Measures. Throws usage for number or repeat below 1 or a negative min_repeat_ms; exceptions of `run` pass through.
Evaluation evaluate(const std::function<void()>& run, const EvaluatorOptions& options = {});

/// A `prepare` that evicts the caches: writes and reads a buffer of twice `bytes` (0: twice the last-level cache).
std::function<void()> cache_flusher(int64_t bytes = 0);

}  // namespace kilter
