#include "tune/tuner/race/contest.h"

#include <algorithm>

#include "measure/clock.h"
#include "tune/tuner/race/lap_times.h"

namespace kilter::tune {
namespace {

void add_laps(Contest& c, const Laps& laps) {
  for (int64_t round = 0; round < laps.rounds; ++round) {
    std::vector<double> totals;
    for (const std::vector<Lap>& lane : laps.laps) totals.push_back(run_ms(lane, round));
    if (std::ranges::any_of(totals, [](double ms) { return ms <= 0; })) continue;
    ++c.rounds;
    for (size_t v = 0; v < c.ids.size(); ++v) {
      c.series[v].total.push_back(totals[v]);
      for (const auto& [node, steps] : c.variants[v]->steps)
        c.series[v].layer[node].push_back(layer_time(laps.laps[v], round, steps).ms);
    }
  }
}

void run_contest(NetworkBench& bench, Contest& c, double seconds, double half_width, RaceEnd* until) {
  constexpr int64_t kLeastRounds = 12;
  c.series.resize(c.ids.size());
  const double end = now_ms() + seconds * 1e3;
  for (uint64_t seed = 1; c.faults.empty(); ++seed) {
    MeasureOptions how;
    how.rounds = 6;
    how.slice_ms = 4;
    how.seed = seed;
    const Laps laps = bench.runner().measure(c.ids, how);
    c.faults = laps.faults;
    add_laps(c, laps);
    if ((c.rounds >= kLeastRounds && is_sharp(c, half_width)) || now_ms() > end) break;
    if (until != nullptr && until->left_seconds() <= 0) break;
  }
}

/// Builds and loads a plan and records its faults. Returns whether it loaded.
bool enter(NetworkBench& bench, Contest& c, const Choices& plan) {
  const auto variant = bench.build(plan);
  const Loaded loaded = bench.load(*variant);
  c.faults.insert(c.faults.end(), loaded.faults.begin(), loaded.faults.end());
  if (!loaded.id) return false;
  c.variants.push_back(variant);
  c.ids.push_back(*loaded.id);
  return true;
}

double layer_sum(const Series& s, const std::vector<std::string>& nodes, size_t round) {
  double sum = 0;
  for (const std::string& node : nodes) sum += s.layer.at(node)[round];
  return sum;
}

}  // namespace

double RaceEnd::left_seconds() {
  if (beat_) beat_();
  const double now = now_ms();
  if (!seen_ && interrupted_ && interrupted_()) {
    seen_ = true;
    end_ms_ = std::min(end_ms_, now + kInterruptedRace * 1e3);
  }
  return (end_ms_ - now) / 1e3;
}

std::optional<size_t> entrant_of(const Contest& c, const Fault& fault) {
  if (c.ids.empty()) return std::nullopt;
  return static_cast<size_t>(std::ranges::find(c.ids, fault.variant) - c.ids.begin());
}

Contest hold_contest(NetworkBench& bench, const std::vector<Choices>& plans, double seconds, double half_width,
                     RaceEnd* end) {
  Contest c;
  c.variants.push_back(std::shared_ptr<const Variant>(&bench.fallback(), [](const Variant*) {}));
  c.ids = {bench.fallback_id()};
  try {
    for (const Choices& one : plans) {
      if (!enter(bench, c, one)) return c;
    }
    run_contest(bench, c, seconds, half_width, end);
  } catch (...) {
    release(bench, c);
    throw;
  }
  return c;
}

void release(NetworkBench& bench, const Contest& contest) {
  for (size_t i = 1; i < contest.ids.size(); ++i) bench.runner().drop(contest.ids[i]);
}

bool is_sharp(const Contest& c, double half_width) {
  for (size_t v = 0; v < c.series.size(); ++v) {
    if (v != 1 && ratio_of(c.series[v], c.series[1]).half_width() > half_width) return false;
  }
  return true;
}

PlanMemory memory_of(const Contest& contest, size_t entrant, int threads) {
  return plan_memory(contest.variants[entrant]->compiled, threads);
}

Ratio ratio_of(const Series& base, const Series& other) { return paired_ratio(base.total, other.total); }

Ratio layers_ratio(const Series& base, const std::vector<std::string>& base_layers, const Series& other,
                   const std::vector<std::string>& other_layers) {
  std::vector<double> a, b;
  for (size_t r = 0; r < base.total.size(); ++r) {
    a.push_back(layer_sum(base, base_layers, r));
    b.push_back(layer_sum(other, other_layers, r));
  }
  return paired_ratio(a, b);
}

}  // namespace kilter::tune
