// Timing of one function, in milliseconds by the clock of base/ticks.h. To compare functions, use measure/compare.h; to
// measure one with checks for disturbances, use measure/evaluator.h.
#pragma once

#include <cstdint>
#include <functional>

#include "measure/stats.h"

namespace kilter {

/// Returns a moment in milliseconds; only differences are meaningful. Tests supply their own clock.
using ClockMs = std::function<double()>;
/// Returns ticks() as milliseconds since the first use.
double now_ms();

/// Returns the nanoseconds of the monotonic clock.
int64_t now_ns();

/// Returns the CPU time that all threads of this process have used.
double process_cpu_ms();

/// Makes `warm_up` calls that do not count, then calls `run` until `seconds` have passed and at least `min_samples`
/// have been taken.
Samples sample(const std::function<void()>& run, double seconds, int min_samples = 10, int warm_up = 3);

/// Returns the peak resident size of this process so far, in bytes.
int64_t peak_rss_bytes();

}  // namespace kilter
