// Timing one thing, in milliseconds of base/ticks.h. For comparing things use measure/compare.h, for one thing under
// stated conditions measure/evaluator.h.
#pragma once

#include <cstdint>
#include <functional>

#include "measure/stats.h"

namespace kilter {

/// A moment in milliseconds; only differences mean something. Tests give one of their own.
using ClockMs = std::function<double()>;
/// ticks() as milliseconds since the first use.
double now_ms();

/// Nanoseconds of the monotonic clock.
int64_t now_ns();

/// Processor time that all threads of this process have used.
double process_cpu_ms();

/// Calls `run` until `seconds` have passed and at least `min_samples` were taken, after `warm_up` calls that do not
/// count.
Samples sample(const std::function<void()>& run, double seconds, int min_samples = 10, int warm_up = 3);

/// Largest resident size of this process so far, in bytes.
int64_t peak_rss_bytes();

}  // namespace kilter
