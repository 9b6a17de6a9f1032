// A time evaluator: repeated measurements of one function, with the options and figures that are usual for such tools.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "measure/clock.h"
#include "measure/quiet.h"
#include "measure/stats.h"

namespace kilter {

struct EvaluatorOptions {
  int64_t number = 1;                  ///< calls in one measurement, whose value is their mean
  int64_t repeat = 10;                 ///< measurements
  double min_repeat_ms = 0;            ///< `number` is raised until a measurement takes this long
  int warm_up = 1;                     ///< calls that do not count
  std::function<void()> prepare = {};  ///< runs untimed before each measurement; with number > 1, only the first call
                                       ///< finds the prepared state, such as flushed caches
  QuietLimits quiet;
  // For tests.
  ClockMs clock = now_ms;
  std::function<QuietReading()> read_quiet = kilter::read_quiet;
};

struct Evaluation {
  Samples samples;           ///< milliseconds per call, one value per measurement, all `repeat` of them
  int64_t number = 1;        ///< calls in a measurement, after min_repeat_ms was applied
  int64_t disturbed = 0;     ///< measurements that the machine disturbed
  std::string disturbed_by;  ///< cause for the first disturbed measurement, in words
  DisturbedCount disturbed_count;
  Samples quiet;  ///< the undisturbed ones, or all when fewer than half are undisturbed

  double mean() const { return samples.mean(); }
  double std_dev() const { return samples.std_dev(); }
  double median() const { return samples.median(); }
  double min() const { return samples.min(); }
  double max() const { return samples.quantile(1); }
  /// Return Kilter's own estimate, the mean of the middle half of `quiet`, and its spread as defined by
  /// Samples::spread.
  double estimate() const { return quiet.middle_mean(); }
  double spread() const { return quiet.spread(); }
};

/// Measures `run`. Throws usage for number or repeat below 1 or a negative min_repeat_ms; exceptions of `run`
/// propagate.
Evaluation evaluate(const std::function<void()>& run, const EvaluatorOptions& options = {});

/// Returns a `prepare` function that evicts the caches by writing and reading a buffer of twice `bytes` (0: twice the
/// last-level cache).
std::function<void()> cache_flusher(int64_t bytes = 0);

}  // namespace kilter
