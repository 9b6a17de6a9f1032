#include "measure/evaluator.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "base/error.h"
#include "measure/caches.h"

namespace kilter {
namespace {

/// Returns the total time of `number` calls.
double measure(const std::function<void()>& run, int64_t number, const ClockMs& clock) {
  const double start = clock();
  for (int64_t i = 0; i < number; ++i) run();
  return clock() - start;
}

/// Returns a number of calls that take about `wanted_ms`, if `number` calls took `total_ms`, at most ten times as many.
int64_t next_number(int64_t number, double total_ms, double wanted_ms) {
  const double factor = total_ms > 0 ? std::min(1.05 * wanted_ms / total_ms, 10.0) : 10;
  return std::max(number + 1, static_cast<int64_t>(std::ceil(static_cast<double>(number) * factor)));
}

/// Returns the number of calls that takes min_repeat_ms. Aims slightly higher, as the next measurement may be shorter.
/// If a measurement is long enough, repeats it and takes the shorter one, because a measurement that another program
/// interrupted would end the growth too early.
int64_t grow_number(const std::function<void()>& run, const EvaluatorOptions& options) {
  int64_t number = options.number;
  if (options.min_repeat_ms <= 0) return number;
  const auto total_of = [&] {
    if (options.prepare) options.prepare();
    return measure(run, number, options.clock);
  };
  constexpr int64_t kMost = int64_t{1} << 40;
  while (number < kMost) {
    double total = total_of();
    if (total >= options.min_repeat_ms) total = std::min(total, total_of());
    if (total >= options.min_repeat_ms) break;
    number = next_number(number, total, options.min_repeat_ms);
  }
  return number;
}

/// Takes all samples, each of result.number calls.
void take_samples(const std::function<void()>& run, const EvaluatorOptions& options, Evaluation& result) {
  QuietWatch watch(options.quiet, options.read_quiet);
  std::vector<double> undisturbed;
  for (int64_t i = 0; i < options.repeat; ++i) {
    if (options.prepare) options.prepare();
    watch.start();
    const double total = measure(run, result.number, options.clock);
    const Disturbance disturbance = watch.stop(total);
    const double ms = total / static_cast<double>(result.number);
    result.samples.ms.push_back(ms);
    result.disturbed_count.add(disturbance);
    if (!disturbance.disturbed()) {
      undisturbed.push_back(ms);
    } else if (result.disturbed++ == 0) {
      result.disturbed_by = disturbance.why();
    }
  }
  const bool enough = 2 * undisturbed.size() >= result.samples.ms.size();
  result.quiet.ms = enough ? undisturbed : result.samples.ms;
}

}  // namespace

Evaluation evaluate(const std::function<void()>& run, const EvaluatorOptions& options) {
  if (options.number < 1)
    fail(ErrorKind::usage, "number {}: expected 1 or more calls in one measurement", options.number);
  if (options.repeat < 1) fail(ErrorKind::usage, "repeat {}: expected 1 or more measurements", options.repeat);
  if (!(options.min_repeat_ms >= 0)) {
    fail(ErrorKind::usage, "min_repeat_ms {}: expected 0 or more milliseconds", options.min_repeat_ms);
  }
  for (int i = 0; i < options.warm_up; ++i) run();
  int64_t number = grow_number(run, options);
  constexpr int kMostTries = 3;
  for (int tries = 1;; ++tries) {
    Evaluation result;
    result.number = number;
    take_samples(run, options, result);
    const double shortest = static_cast<double>(number) * std::ranges::min(result.samples.ms);
    // Interruptions may have made the measurements long while the number grew.
    if (shortest >= options.min_repeat_ms / 2 || tries == kMostTries) return result;
    number = next_number(number, shortest, options.min_repeat_ms);
  }
}

std::function<void()> cache_flusher(int64_t bytes) {
  const int64_t level = bytes > 0 ? bytes : last_level_cache_bytes();
  const auto buffer = std::make_shared<std::vector<uint64_t>>(static_cast<size_t>(2 * level / 8));
  return [buffer] {
    uint64_t carry = 0;
    for (uint64_t& word : *buffer) word = (carry += word + 1);
    // Keeps the compiler from removing the computation as unused.
    asm volatile("" : : "r"(carry) : "memory");
  };
}

}  // namespace kilter
