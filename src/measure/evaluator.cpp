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

/// Returns the number of calls that takes min_repeat_ms. Aims slightly higher, as the next measurement may be shorter.
/// Takes the shorter of two measurements where the first is long enough: one that another program interrupted would end
/// the growth too early.
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
    const double factor = total > 0 ? 1.05 * options.min_repeat_ms / total : 10;
    number =
        std::max(number + 1, static_cast<int64_t>(std::ceil(static_cast<double>(number) * std::min(factor, 10.0))));
  }
  return number;
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
  Evaluation result;
  result.number = grow_number(run, options);
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
  return result;
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
