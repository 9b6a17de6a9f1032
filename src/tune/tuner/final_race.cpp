#include "tune/tuner/final_race.h"

#include <algorithm>
#include <cmath>

#include "measure/clock.h"

namespace kilter::tune {
namespace {

/// Paired times of several plans, round by round.
struct Series {
  std::vector<double> total;                         ///< by round, ms
  std::map<std::string, std::vector<double>> layer;  ///< by anchor, by round
};

struct Contest {
  std::vector<std::shared_ptr<const Variant>> variants;
  std::vector<VariantId> ids;
  std::vector<Series> series;
  std::vector<Fault> faults;
  int64_t rounds = 0;
};

void add_laps(Contest& c, const Laps& laps) {
  for (int64_t round = 0; round < laps.rounds; ++round) {
    std::vector<Series> one(c.ids.size());
    bool whole = true;
    for (size_t v = 0; v < c.ids.size(); ++v) {
      double total = 0;
      std::map<std::string, double> layer;
      int64_t count = 0;
      for (const Lap& lap : laps.laps[v]) {
        if (lap.round != round) continue;
        ++count;
        total += lap.total_ms;
        for (const auto& [node, steps] : c.variants[v]->steps) layer[node] += layer_ms(lap, steps);
      }
      whole = whole && count > 0;
      if (count == 0) continue;
      one[v].total.push_back(total / static_cast<double>(count));
      for (const auto& [node, ms] : layer) one[v].layer[node].push_back(ms / static_cast<double>(count));
    }
    if (!whole) continue;
    ++c.rounds;
    for (size_t v = 0; v < c.ids.size(); ++v) {
      c.series[v].total.push_back(one[v].total.front());
      for (const auto& [node, ms] : one[v].layer) c.series[v].layer[node].push_back(ms.front());
    }
  }
}

Ratio ratio_of(const Series& base, const Series& other) { return paired_ratio(base.total, other.total); }

void run_contest(NetworkBench& bench, Contest& c, double seconds, double half_width) {
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
    const bool sharp = c.rounds >= kLeastRounds && ratio_of(c.series[0], c.series[1]).half_width() <= half_width;
    if (sharp || now_ms() > end) break;
  }
}

double layer_sum(const Series& s, const std::vector<std::string>& nodes, size_t round) {
  double sum = 0;
  for (const std::string& node : nodes) sum += s.layer.at(node)[round];
  return sum;
}

Ratio task_ratio(const Contest& c, const std::vector<std::string>& nodes) {
  std::vector<double> a, b;
  for (size_t r = 0; r < c.series[0].total.size(); ++r) {
    a.push_back(layer_sum(c.series[0], nodes, r));
    b.push_back(layer_sum(c.series[1], nodes, r));
  }
  return paired_ratio(a, b);
}

class Racer {
 public:
  Racer(NetworkBench& bench, SearchRun& search, const Choices& previous, const RaceLimits& limits)
      : bench_(bench), search_(search), previous_(previous), limits_(limits) {
    for (size_t t = 0; t < search.tasks().size(); ++t) pick(t);
    first_ = picked_;
  }

  FinalRace run() {
    const double end = now_ms() + limits_.seconds * 1e3;
    for (int attempt = 0; attempt <= limits_.attempts && !picked_.empty(); ++attempt) {
      const int left = limits_.attempts - attempt;  // in the last one the plan stays as it is
      const double seconds = (end - now_ms()) / 1e3;
      Contest contest = hold(std::max(1.0, left > 0 ? seconds / 2 : seconds));
      RaceEvent told{attempt + 1, static_cast<int64_t>(picked_.size()), 0, {}, {}, {}, 0};
      if (!contest.faults.empty()) {
        told.fault = contest.faults.front().words;
        search_.log().tell(search_.trials(), told);
        drop_faulty(contest);
        continue;
      }
      note(contest);
      const int64_t given_way = left > 0 ? drop_losers(contest, left == 1) : 0;
      release(contest);
      told.rounds = out_.rounds, told.ratio = out_.ratio;
      told.default_ms = out_.default_ms, told.tuned_ms = out_.tuned_ms;
      told.given_way = given_way;
      search_.log().tell(search_.trials(), told);
      if (given_way == 0) break;
      out_ = {};
    }
    out_.samples = std::move(samples_);
    return decide();
  }

 private:
  void pick(size_t t) {
    const Candidate* best = search_.tasks()[t].winner(search_.noise(), skip_[t]);
    if (best != nullptr)
      picked_[t] = best->schedule;
    else
      picked_.erase(t);
  }

  Choices choices() const {
    Choices all;
    for (const auto& [t, schedule] : picked_) {
      for (const std::string& node : search_.tasks()[t].task().nodes) all[node] = schedule;
    }
    return all;
  }

  Contest hold(double seconds) {
    Contest c;
    c.variants.push_back(nullptr);
    c.variants[0] = std::shared_ptr<const Variant>(&bench_.fallback(), [](const Variant*) {});
    c.ids = {bench_.fallback_id()};
    const Choices mine = choices();
    std::vector<Choices> all{mine};
    if (!previous_.empty() && previous_ != mine) all.push_back(previous_);
    for (const Choices& one : all) {
      const auto variant = bench_.build(one);
      const Loaded loaded = bench_.load(*variant);
      c.faults.insert(c.faults.end(), loaded.faults.begin(), loaded.faults.end());
      if (!loaded.id) return c;
      c.variants.push_back(variant);
      c.ids.push_back(*loaded.id);
    }
    run_contest(bench_, c, seconds, limits_.half_width);
    return c;
  }

  void release(const Contest& c) {
    for (size_t i = 1; i < c.ids.size(); ++i) bench_.runner().drop(c.ids[i]);
  }

  void drop_faulty(const Contest& c) {
    release(c);
    bool found = false;
    for (auto& [t, schedule] : std::map<size_t, Schedule>(picked_)) {
      const std::vector<std::string>& nodes = search_.tasks()[t].task().nodes;
      for (const Fault& f : c.faults) {
        if (std::find(nodes.begin(), nodes.end(), f.layer) == nodes.end()) continue;
        skip_[t].push_back(schedule.text());
        pick(t);
        found = true;
        break;
      }
    }
    if (!found) picked_.clear();
  }

  void note(const Contest& c) {
    out_.choices = choices();
    out_.same_plan = false;
    out_.rounds = c.rounds;
    out_.ratio = ratio_of(c.series[0], c.series[1]);
    out_.default_ms = bootstrap_mean(c.series[0].total);
    out_.tuned_ms = bootstrap_mean(c.series[1].total);
    out_.has_previous = c.ids.size() > 2;
    if (out_.has_previous) out_.previous = ratio_of(c.series[2], c.series[1]);
    double predicted = 1;
    for (const auto& [t, schedule] : picked_) {
      const Candidate* chosen = search_.tasks()[t].find(schedule);
      predicted -= search_.share(t) * (1 - chosen->ratios.cost());
      for (const std::string& node : search_.tasks()[t].task().nodes)
        out_.layers[node] = paired_ratio(c.series[0].layer.at(node), c.series[1].layer.at(node));
      const std::vector<std::string>& nodes = search_.tasks()[t].task().nodes;
      samples_.push_back({t, schedule, task_ratio(c, nodes), c.series[1].layer.at(nodes.front())});
    }
    out_.fidelity = predicted / out_.ratio.value;
  }

  /// Tasks that are slower than by default in the whole network take their next best schedule; how many did.
  int64_t drop_losers(const Contest& c, bool last) {
    int64_t changed = 0;
    for (const auto& [t, schedule] : std::map<size_t, Schedule>(picked_)) {
      const Ratio r = task_ratio(c, search_.tasks()[t].task().nodes);
      if (r.low <= 1 && (!last || r.value <= 1)) continue;
      skip_[t].push_back(schedule.text());
      if (last)
        picked_.erase(t);
      else
        pick(t);
      ++changed;
    }
    return changed;
  }

  FinalRace decide() {
    size_t flips = 0;
    for (const auto& [t, schedule] : first_) {
      const auto now = picked_.find(t);
      flips += now == picked_.end() || !(now->second == schedule) ? 1 : 0;
    }
    out_.flips = first_.empty() ? 0 : static_cast<double>(flips) / static_cast<double>(first_.size());
    if (out_.choices.empty() || out_.ratio.high > 1) {
      FinalRace none;
      none.flips = out_.flips;
      none.samples = std::move(out_.samples);
      return none;
    }
    for (const auto& [t, schedule] : picked_) out_.accepted[t] = schedule.text();
    return out_;
  }

  NetworkBench& bench_;
  SearchRun& search_;
  const Choices& previous_;
  const RaceLimits& limits_;
  std::map<size_t, Schedule> picked_, first_;        ///< by task
  std::map<size_t, std::vector<std::string>> skip_;  ///< by task: schedules that lost in the network
  std::vector<RaceSample> samples_;
  FinalRace out_;
};

}  // namespace

FinalRace race_plans(NetworkBench& bench, SearchRun& search, const Choices& previous, const RaceLimits& limits) {
  return Racer(bench, search, previous, limits).run();
}

}  // namespace kilter::tune
