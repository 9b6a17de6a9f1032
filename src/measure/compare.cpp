#include "measure/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/random.h"

namespace kilter {
namespace {

/// Makes `calls` calls in a row and returns the time per call.
double time_calls(const Candidate& candidate, int64_t calls, const ClockMs& clock) {
  if (candidate.timed) return candidate.timed(calls);
  const double start = clock();
  for (int64_t i = 0; i < calls; ++i) candidate.run();
  return (clock() - start) / static_cast<double>(calls);
}

/// Makes `calls` calls, each after the untimed preparation, and returns the time per call.
double time_prepared(const Candidate& candidate, int64_t calls, const ClockMs& clock) {
  double sum = 0;
  for (int64_t i = 0; i < calls; ++i) {
    if (candidate.prepare) candidate.prepare();
    sum += time_calls(candidate, 1, clock);
  }
  return sum / static_cast<double>(calls);
}

/// Returns the number of calls that makes a slice take at least `slice_ms`; 1 if a single call takes that long.
int64_t calls_for(const Candidate& candidate, const CompareOptions& options) {
  time_prepared(candidate, options.warm_up, options.clock);
  int64_t calls = 1;
  constexpr int64_t kMost = 1'000'000;
  while (calls < kMost) {
    const double per_call = candidate.prepare ? time_prepared(candidate, calls, options.clock)
                                              : time_calls(candidate, calls, options.clock);
    const double total = per_call * static_cast<double>(calls);
    if (total >= options.slice_ms) break;
    const double wanted = static_cast<double>(calls) * 1.2 * options.slice_ms / std::max(total, options.slice_ms / 100);
    calls = std::min(kMost, std::max(calls + 1, static_cast<int64_t>(std::ceil(wanted))));
  }
  return calls;
}

/// Returns a random order of n candidates for round `round` (Fisher and Yates).
std::vector<int> random_order(size_t n, uint64_t round, uint64_t seed) {
  std::vector<int> order(n);
  std::iota(order.begin(), order.end(), 0);
  const Random random(hash_combine(seed, round));
  for (size_t i = n; i-- > 1;) std::swap(order[i], order[static_cast<size_t>(random.integer(i, 0, i))]);
  return order;
}

/// Fewer rounds give no usable interval.
constexpr int kLeastRounds = 5;

/// Uses fewer resamples for many rounds, whose intervals are narrow: computing intervals must not take longer than the
/// rounds.
BootstrapOptions bootstrap_options(const Comparison& comparison, size_t rounds) {
  BootstrapOptions options;
  options.confidence = 1 - 0.4 * (1 - comparison.confidence);
  options.resamples = static_cast<int>(std::clamp<size_t>(2'000'000 / std::max<size_t>(rounds, 1), 200, 1000));
  options.seed = comparison.seed;
  return options;
}

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
  /// Returns whether retaking pays: at least one in four of the recently retaken slices was quiet.
  bool retake_pays() const { return 4 * (helped_ + 2) >= tried_; }

  void count_retake(bool helped) {
    ++tried_;
    helped_ += helped ? 1 : 0;
    if (tried_ >= 64) tried_ /= 2, helped_ /= 2;
  }

  struct Slice {
    double ms = 0, cpu_ms = 0;
  };
  /// Measures the times per call of one slice, and its disturbance.
  Slice time_slice(const Candidate& c, int64_t calls, Disturbance& disturbance) {
    const ClockMs& cpu = c.cpu_ms ? c.cpu_ms : options_.cpu_clock;
    Slice sum;
    const auto add = [&](int64_t more) {
      const double before = cpu();
      sum.ms += time_calls(c, more, options_.clock) * static_cast<double>(more);
      sum.cpu_ms += cpu() - before;
    };
    if (!c.prepare) {
      add(calls);
      disturbance = watch_.stop(sum.ms);
    }
    for (int64_t i = 0; c.prepare && i < calls; ++i) {
      const double before = sum.ms;
      c.prepare();
      watch_.start();
      add(1);
      disturbance.add(watch_.stop(sum.ms - before));
    }
    return {sum.ms / static_cast<double>(calls), sum.cpu_ms / static_cast<double>(calls)};
  }

  /// Returns an undisturbed slice if possible, and adds the disturbances of the returned slice to `round`. While
  /// retaking does not pay, one slice in each round is still retaken to find out when it pays again. Slices of more
  /// than a fiftieth of the budget are not retaken.
  Slice take_slice(size_t candidate, Round& round, bool first) {
    for (int retakes = 0;; ++retakes) {
      Disturbance d;
      const Slice slice = time_slice(candidates_[candidate], result_.calls[candidate], d);
      if (retakes > 0) count_retake(!d.disturbed());
      const bool affordable = d.wall_ms * 1e-3 * 50 <= options_.max_seconds;
      const bool again = affordable && retakes < options_.retakes && (retake_pays() || (first && retakes == 0));
      if (!d.disturbed() || !again) {
        round.disturbance.add(d);
        return slice;
      }
      ++result_.retaken;
    }
  }

  void take_round() {
    const size_t n = candidates_.size();
    Round round;
    round.ms.assign(n, 0), round.cpu_ms.assign(n, 0);
    round.order = random_order(n, result_.rounds.size(), options_.seed);
    watch_.start();
    for (size_t i = 0; i < 2 * n; ++i) {
      const auto at = static_cast<size_t>(round.order[i < n ? i : 2 * n - 1 - i]);
      const Slice slice = take_slice(at, round, i == 0);
      round.ms[at] += slice.ms / 2, round.cpu_ms[at] += slice.cpu_ms / 2;
    }
    result_.disturbances.add(round.disturbance);
    result_.disturbed = result_.disturbances.disturbed;
    result_.rounds.push_back(std::move(round));
  }

  /// Applies the rule for disturbed rounds to all rounds so far.
  void keep_rounds() {
    result_.taken = static_cast<int64_t>(result_.rounds.size());
    const int64_t quiet = result_.taken - result_.disturbed;
    const int64_t least = std::min<int64_t>(options_.min_rounds, result_.taken);
    double limit = -1;  // the greatest weight that a disturbed round may have
    if (quiet < least) {
      std::vector<double> weights;
      for (const Round& r : result_.rounds) {
        if (r.disturbance.disturbed()) weights.push_back(r.disturbance.weight());
      }
      const auto last = weights.begin() + static_cast<std::ptrdiff_t>(least - quiet - 1);
      std::nth_element(weights.begin(), last, weights.end());
      limit = *last;
    }
    result_.samples.assign(candidates_.size(), {}), result_.cpu_samples.assign(candidates_.size(), {});
    result_.kept = 0;
    for (Round& round : result_.rounds) {
      round.kept = !round.disturbance.disturbed() || round.disturbance.weight() <= limit;
      if (!round.kept) continue;
      ++result_.kept;
      for (size_t i = 0; i < candidates_.size(); ++i) {
        result_.samples[i].ms.push_back(round.ms[i]);
        result_.cpu_samples[i].ms.push_back(round.cpu_ms[i]);
      }
    }
    result_.dropped =
        result_.disturbed == 0
            ? "no round was disturbed"
            : fmt::format("{} of {} rounds were disturbed; {}", result_.disturbed, result_.taken,
                          quiet >= least ? "they were dropped"
                                         : fmt::format("the {} least disturbed rounds were kept", result_.kept));
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
        fmt::format("half-width {:.2f} % ({:.2f} % wanted)", widest * 100, options_.target_half_width * 100);
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
  int64_t tried_ = 0, helped_ = 0;  // slices retaken recently, and how many of them were quiet
  Comparison result_;
};

}  // namespace

Ratio Comparison::ratio(size_t a, size_t b) const {
  require(a < samples.size() && b < samples.size(), "candidate {} or {} does not exist; the comparison has {}", a, b,
          samples.size());
  return paired_ratio(samples[a].ms, samples[b].ms, bootstrap_options(*this, samples[a].ms.size()));
}

Ratio Comparison::time_ms(size_t candidate) const {
  require(candidate < samples.size(), "candidate {} does not exist; the comparison has {}", candidate, samples.size());
  return bootstrap_mean(samples[candidate].ms, bootstrap_options(*this, samples[candidate].ms.size()));
}

namespace {

bool known(const Samples& cpu) {
  return std::ranges::all_of(cpu.ms, [](double ms) { return ms > 0; });
}

}  // namespace

std::optional<Ratio> Comparison::cpu_ratio(size_t a, size_t b) const {
  require(a < cpu_samples.size() && b < cpu_samples.size(), "candidate {} or {} does not exist; the comparison has {}",
          a, b, cpu_samples.size());
  if (!known(cpu_samples[a]) || !known(cpu_samples[b])) return std::nullopt;
  return paired_ratio(cpu_samples[a].ms, cpu_samples[b].ms, bootstrap_options(*this, cpu_samples[a].ms.size()));
}

std::optional<Ratio> Comparison::cpu_ms(size_t candidate) const {
  require(candidate < cpu_samples.size(), "candidate {} does not exist; the comparison has {}", candidate,
          cpu_samples.size());
  if (!known(cpu_samples[candidate])) return std::nullopt;
  return bootstrap_mean(cpu_samples[candidate].ms, bootstrap_options(*this, cpu_samples[candidate].ms.size()));
}

Comparison compare(const std::vector<Candidate>& candidates, const CompareOptions& options) {
  require(candidates.size() >= 2, "a comparison needs two candidates or more, got {}", candidates.size());
  require(options.min_rounds >= 2, "a comparison needs min_rounds of 2 or more, got {}", options.min_rounds);
  return Comparer(candidates, options).run();
}

}  // namespace kilter
