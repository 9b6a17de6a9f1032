#include "measure/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/random.h"

namespace kilter {
namespace {

/// Time of `calls` calls without what prepares them, per call.
double time_slice(const Candidate& candidate, int64_t calls, const ClockMs& clock) {
  if (candidate.timed) return candidate.timed(calls);
  if (!candidate.prepare) {
    const double start = clock();
    for (int64_t i = 0; i < calls; ++i) candidate.run();
    return (clock() - start) / static_cast<double>(calls);
  }
  double sum = 0;
  for (int64_t i = 0; i < calls; ++i) {
    candidate.prepare();
    const double start = clock();
    candidate.run();
    sum += clock() - start;
  }
  return sum / static_cast<double>(calls);
}

/// How often to call so that a slice takes at least `slice_ms`; 1 for calls that do alone.
int64_t calls_for(const Candidate& candidate, const CompareOptions& options) {
  for (int i = 0; i < options.warm_up; ++i) time_slice(candidate, 1, options.clock);
  int64_t calls = 1;
  constexpr int64_t kMost = 1'000'000;
  while (calls < kMost) {
    const double total = time_slice(candidate, calls, options.clock) * static_cast<double>(calls);
    if (total >= options.slice_ms) break;
    const double wanted = static_cast<double>(calls) * 1.2 * options.slice_ms / std::max(total, options.slice_ms / 100);
    calls = std::min(kMost, std::max(calls + 1, static_cast<int64_t>(std::ceil(wanted))));
  }
  return calls;
}

/// A random order of n candidates for round `round` (Fisher and Yates).
std::vector<int> random_order(size_t n, uint64_t round, uint64_t seed) {
  std::vector<int> order(n);
  std::iota(order.begin(), order.end(), 0);
  const Random random(hash_combine(seed, round));
  for (size_t i = n; i-- > 1;) std::swap(order[i], order[static_cast<size_t>(random.integer(i, 0, i))]);
  return order;
}

/// Fewer give no interval worth the name.
constexpr int kLeastRounds = 5;

class Comparer {
 public:
  Comparer(const std::vector<Candidate>& candidates, const CompareOptions& options)
      : candidates_(candidates), options_(options), watch_(options.quiet, options.read_quiet) {}

  Comparison run() {
    const double start = options_.clock();
    for (const Candidate& c : candidates_) {
      result_.names.push_back(c.name);
      result_.calls.push_back(calls_for(c, options_));
    }
    result_.confidence = options_.confidence;
    result_.seed = options_.seed;
    int next_look = options_.min_rounds;
    while (result_.stopped_because.empty()) {
      take_round();
      const auto taken = static_cast<int>(result_.rounds.size());
      result_.seconds = (options_.clock() - start) * 1e-3;
      const bool over = result_.seconds >= options_.max_seconds || taken >= options_.max_rounds;
      if (over ? taken < kLeastRounds : taken < next_look) continue;
      next_look = taken + std::max(1, taken / 4);
      decide(over);
    }
    return std::move(result_);
  }

 private:
  void take_round() {
    const size_t n = candidates_.size();
    Round round;
    round.ms.assign(n, 0);
    round.order = random_order(n, result_.rounds.size(), options_.seed);
    watch_.start();
    const double start = options_.clock();
    for (size_t i = 0; i < 2 * n; ++i) {
      const auto at = static_cast<size_t>(round.order[i < n ? i : 2 * n - 1 - i]);
      round.ms[at] += time_slice(candidates_[at], result_.calls[at], options_.clock) / 2;
    }
    round.disturbance = watch_.stop(options_.clock() - start);
    const Disturbance& d = round.disturbance;
    if (d.stolen) ++result_.reasons["steal"];
    if (d.waited) ++result_.reasons["wait"];
    if (d.switched) ++result_.reasons["switches"];
    if (d.drifted) ++result_.reasons["clock"];
    result_.disturbed += d.disturbed() ? 1 : 0;
    result_.rounds.push_back(std::move(round));
  }

  /// Applies the rule for disturbed rounds to all rounds so far.
  void keep_rounds() {
    const auto taken = static_cast<int64_t>(result_.rounds.size());
    const int64_t quiet = taken - result_.disturbed;
    const bool drop = quiet >= std::max<int64_t>(std::min<int64_t>(options_.min_rounds, taken), (taken + 2) / 3);
    result_.samples.assign(candidates_.size(), {});
    result_.taken = taken;
    result_.kept = 0;
    for (Round& round : result_.rounds) {
      round.kept = !drop || !round.disturbance.disturbed();
      if (!round.kept) continue;
      ++result_.kept;
      for (size_t i = 0; i < candidates_.size(); ++i) result_.samples[i].ms.push_back(round.ms[i]);
    }
    result_.dropped = result_.disturbed == 0 ? "no round was disturbed"
                      : drop ? fmt::format("{} disturbed rounds of {} were dropped", result_.disturbed, taken)
                             : fmt::format("{} rounds of {} were disturbed, too many to drop: all were kept",
                                           result_.disturbed, taken);
  }

  void decide(bool over) {
    keep_rounds();
    double widest = 0;
    bool known = true;
    bool different = options_.stop_when_different;
    for (size_t i = 1; i < candidates_.size(); ++i) {
      const Ratio r = result_.ratio(0, i);
      widest = std::max(widest, r.half_width());
      const double half = std::log(r.high / r.low) / 2;
      const bool clear = options_.stop_when_different && std::abs(std::log(r.value)) > 2 * half;
      different = different && clear;
      known = known && (clear || r.half_width() <= options_.target_half_width);
    }
    const std::string width =
        fmt::format("half-width {:.2f} % of {:.2f} % wanted", widest * 100, options_.target_half_width * 100);
    if (different) {
      result_.stopped_because = fmt::format("the difference is clear, {}", width);
    } else if (known) {
      result_.stopped_because = width;
    } else if (over) {
      result_.stopped_because = fmt::format("the budget of {:g} s or {} rounds is spent, {}", options_.max_seconds,
                                            options_.max_rounds, width);
    }
  }

  const std::vector<Candidate>& candidates_;
  const CompareOptions& options_;
  QuietWatch watch_;
  Comparison result_;
};

}  // namespace

Ratio Comparison::ratio(size_t a, size_t b) const {
  require(a < samples.size() && b < samples.size(), "candidates {} and {} of a comparison of {}", a, b, samples.size());
  return paired_ratio(samples[a].ms, samples[b].ms, {confidence, 1000, seed});
}

Ratio Comparison::time_ms(size_t candidate) const {
  require(candidate < samples.size(), "candidate {} of a comparison of {}", candidate, samples.size());
  return bootstrap_mean(samples[candidate].ms, {confidence, 1000, seed});
}

Comparison compare(const std::vector<Candidate>& candidates, const CompareOptions& options) {
  require(candidates.size() >= 2, "a comparison needs two candidates or more, got {}", candidates.size());
  require(options.min_rounds >= 2, "a comparison needs min_rounds of 2 or more, got {}", options.min_rounds);
  return Comparer(candidates, options).run();
}

}  // namespace kilter
