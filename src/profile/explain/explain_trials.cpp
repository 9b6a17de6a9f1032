#include "profile/explain/explain_trials.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "base/align.h"
#include "base/error.h"
#include "base/random.h"
#include "exec/trace.h"
#include "measure/clock.h"
#include "measure/stats.h"

namespace kilter::profile {
namespace {

constexpr double kQuantile = 0.25;
constexpr double kTurnMs = 5;           ///< length of the timed runs in one turn
constexpr double kWarmUpUntilMs = 200;  ///< longer runs need no warm-up, since they fill every cache themselves
constexpr int kResamples = 200;
constexpr size_t kMostLaps = 400;

}  // namespace

Network::Network(const Subject& subject, std::shared_ptr<const Program> program, std::optional<Compiled> compiled,
                 const std::shared_ptr<ThreadPool>& pool)
    : program_(std::move(program)),
      compiled_(std::move(compiled)),
      instance_(std::make_unique<Instance>(program_, pool)),
      threads_(pool->threads()) {
  for (const PlanTensor& t : plan().inputs) {
    const auto given = subject.inputs.find(t.name);
    require(given != subject.inputs.end(), "input '{}' has no tensor", t.name);
    from_.push_back(given->second.raw());
  }
  for (const PlanTensor& t : plan().outputs) outputs_.emplace_back(t.type, t.shape);
  for (const Tensor& t : outputs_) to_.push_back(t.raw());
}

std::unique_ptr<Network> Network::compile(const Subject& subject, const CompileOptions& options, const Chooser* chooser,
                                          const std::shared_ptr<ThreadPool>& pool) {
  Compiled compiled = compile_graph(subject.graph(), options, chooser);
  auto program = std::make_shared<Program>(compiled.plan);
  return std::make_unique<Network>(subject, std::move(program), std::move(compiled), pool);
}

namespace {

/// One network in a race.
class Runner {
 public:
  explicit Runner(Network& network)
      : network_(network), trace_(std::max<size_t>(network.plan().steps.size(), 1), network.threads()) {
    network_.run(&trace_);
    network_.run(&trace_);
    const double ms = ms_between(trace_.run().begin, trace_.run().end);
    runs_ = std::clamp(static_cast<int>(std::ceil(kTurnMs / std::max(ms, 1e-3))), 1, 50);
    warm_up_ = ms < kWarmUpUntilMs;
  }

  void turn() {
    if (warm_up_) network_.run(&trace_);
    for (int i = 0; i < runs_; ++i) {
      network_.run(&trace_);
      laps_.push_back(read());
    }
  }
  const Laps& laps() const { return laps_; }
  /// Returns the laps, thinned out evenly if there are more than needed.
  Laps take() {
    const size_t step = ceil_div(laps_.size(), kMostLaps);
    Laps kept;
    for (size_t i = 0; i < laps_.size(); i += std::max<size_t>(step, 1)) kept.push_back(std::move(laps_[i]));
    return kept;
  }

 private:
  std::vector<double> read() const {
    std::vector<double> ms(network_.plan().steps.size(), 0);
    uint64_t last = trace_.run().begin;
    for (size_t r = 0; r < trace_.size(); ++r) {
      ms[trace_.region(r).step] += ms_between(last, trace_.region(r).wall.end);
      last = trace_.region(r).wall.end;
    }
    return ms;
  }

  Network& network_;
  RunTrace trace_;
  Laps laps_;
  int runs_ = 1;
  bool warm_up_ = true;
};

}  // namespace

std::vector<Laps> race(const std::vector<Network*>& networks, const RaceOptions& options) {
  std::vector<Runner> runners;
  runners.reserve(networks.size());
  for (Network* n : networks) runners.emplace_back(*n);
  const Random random(options.seed, "race");
  std::vector<size_t> order(runners.size());
  std::iota(order.begin(), order.end(), 0);
  const auto sharp = [&] {
    if (!options.sharp) return true;
    std::vector<const Laps*> laps;
    for (const Runner& r : runners) laps.push_back(&r.laps());
    return options.sharp(laps);
  };
  const double start = now_ms();
  double ask = options.seconds;
  for (int round = 0; round < 10000; ++round) {
    const double spent = (now_ms() - start) * 1e-3;
    if (spent >= options.max_seconds && round >= 2) break;
    if (spent >= ask && round >= options.min_rounds) {
      if (sharp()) break;
      ask = 1.3 * spent;
    }
    if (options.progress) options.progress(std::min(spent / options.seconds, 1.0));
    for (size_t i = order.size(); i > 1; --i) {
      const auto draw = random.bits(static_cast<uint64_t>(round) * order.size() + i);
      std::swap(order[i - 1], order[draw % i]);
    }
    for (size_t i : order) runners[i].turn();
  }
  std::vector<Laps> laps;
  for (Runner& r : runners) laps.push_back(r.take());
  return laps;
}

namespace {

std::string signature(const Step& s) {
  return fmt::format("{}|{}|{:x}|{}|{}|{}|{},{},{},{}|{}", static_cast<int>(s.kind), s.name, s.key, s.extent,
                     s.max_threads, s.ops, s.halo.planes, s.halo.plane_bytes, s.halo.rows, s.halo.row_bytes,
                     s.copy_bytes);
}

bool reads_one_of(const std::vector<StepNotes>& notes, size_t step, const std::set<size_t>& makers) {
  if (step >= notes.size()) return false;
  const auto& from = notes[step].producers;
  return std::any_of(from.begin(), from.end(), [&](size_t s) { return makers.contains(s); });
}

}  // namespace

Changed changed_steps(const Plan& before, const std::vector<StepNotes>& before_notes, const Plan& after,
                      const std::vector<StepNotes>& after_notes) {
  std::map<std::string, std::vector<size_t>> known;
  for (size_t s = after.steps.size(); s-- > 0;) known[signature(after.steps[s])].push_back(s);
  Changed out;
  std::vector<std::pair<size_t, size_t>> same;
  for (size_t s = 0; s < before.steps.size(); ++s) {
    auto& twins = known[signature(before.steps[s])];
    if (twins.empty()) {
      out.before.insert(s);
      continue;
    }
    same.emplace_back(s, twins.back());
    twins.pop_back();
  }
  for (const auto& [text, rest] : known) out.after.insert(rest.begin(), rest.end());
  for (size_t s : out.before) {
    const auto twin = [&](const Step& a) { return a.name == before.steps[s].name && a.kind == before.steps[s].kind; };
    if (std::none_of(after.steps.begin(), after.steps.end(), twin)) out.gone.insert(s);
  }
  const Changed makers = out;
  for (const auto& [b, a] : same) {
    if (!reads_one_of(before_notes, b, makers.before) && !reads_one_of(after_notes, a, makers.after)) continue;
    out.before.insert(b);
    out.after.insert(a);
  }
  return out;
}

namespace {

/// Returns the lower quartile of the values, interpolating linearly between neighbours. Reorders them.
double lower_quartile(std::vector<double>& values) {
  const double at = kQuantile * static_cast<double>(values.size() - 1);
  const auto low = values.begin() + static_cast<std::ptrdiff_t>(at);
  std::nth_element(values.begin(), low, values.end());
  if (low + 1 == values.end()) return *low;
  return *low + (at - std::floor(at)) * (*std::min_element(low + 1, values.end()) - *low);
}

/// Returns the lower quartile of each step over the laps in `pick` (all if empty), summed over the steps.
double sum_ms(const Laps& laps, const std::set<size_t>& steps, const std::vector<size_t>& pick) {
  std::vector<double> values;
  double total = 0;
  for (const size_t step : steps) {
    values.clear();
    if (pick.empty()) {
      for (const auto& lap : laps) values.push_back(lap[step]);
    } else {
      for (const size_t i : pick) values.push_back(laps[i][step]);
    }
    total += lower_quartile(values);
  }
  return total;
}

std::vector<size_t> resample(size_t count, const Random& random, uint64_t turn) {
  std::vector<size_t> pick(count);
  for (size_t i = 0; i < count; ++i) pick[i] = random.bits(turn * count + i) % count;
  return pick;
}

}  // namespace

Gain told_gain(const Gain& moved, const Gain& all) {
  constexpr double kPlacement = 0.01;
  const bool ruled_out = moved.share < all.low || moved.share > all.high;
  return ruled_out && std::abs(all.share - moved.share) > kPlacement ? all : moved;
}

double typical_ms(const Laps& laps, const std::set<size_t>& steps) { return sum_ms(laps, steps, {}); }

std::set<size_t> every_step(const Laps& laps) {
  std::set<size_t> all;
  for (size_t s = 0; !laps.empty() && s < laps[0].size(); ++s) all.insert(s);
  return all;
}

namespace {

std::set<size_t> without(std::set<size_t> steps, const std::set<size_t>& gone) {
  for (size_t s : gone) steps.erase(s);
  return steps;
}

}  // namespace

Gains gains_between(const Laps& first, const Laps& second, const GainOf& of, uint64_t seed) {
  require(!first.empty() && !second.empty(), "a race without laps");
  const double whole = sum_ms(first, every_step(first), {});
  if (whole <= 0) return {};
  const std::set<size_t> all_before = without(every_step(first), of.left_out_before),
                         all_after = without(every_step(second), of.left_out_after);
  const auto saved = [&](const auto& before, const auto& after, const auto& pick_first, const auto& pick_second) {
    return (sum_ms(first, before, pick_first) - of.after_counts * sum_ms(second, after, pick_second)) / whole;
  };
  const std::vector<size_t> as_they_are;
  const double changed = saved(of.before, of.after, as_they_are, as_they_are);
  const double all = saved(all_before, all_after, as_they_are, as_they_are);
  const Random random_first(seed, "first"), random_second(seed, "second");
  std::vector<double> draws;
  for (uint64_t i = 0; i < kResamples; ++i) {
    draws.push_back(saved(all_before, all_after, resample(first.size(), random_first, i),
                          resample(second.size(), random_second, i)));
  }
  const double low = quantile(draws, 0.025), high = quantile(draws, 0.975);
  // With few laps, the lower quartiles of the resamples are biased to one side, so the interval is widened to contain
  // the estimate.
  const auto around = [&](double share) {
    return Gain{share, std::min(share + low - all, share), std::max(share + high - all, share)};
  };
  return {around(changed), around(all)};
}

}  // namespace kilter::profile
