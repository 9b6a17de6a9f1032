#include "tune/tuner/final_race.h"

#include <algorithm>

#include "base/error.h"
#include "measure/clock.h"
#include "tune/tuner/contest.h"
#include "tune/tuner/weight_budget.h"

namespace kilter::tune {
namespace {

class Racer {
 public:
  Racer(NetworkBench& bench, SearchRun& search, Choices previous, const RaceLimits& limits)
      : bench_(bench), search_(search), previous_(std::move(previous)), limits_(limits) {
    for (size_t t = 0; t < search.tasks().size(); ++t) pick(t);
    keep_to_budget();
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
      release(bench_, contest);
      told.rounds = out_.rounds, told.ratio = out_.ratio;
      told.default_ms = out_.default_ms, told.tuned_ms = out_.tuned_ms;
      told.given_way = given_way;
      search_.log().tell(search_.trials(), told);
      if (given_way == 0) break;
      out_ = {};
    }
    FinalRace taken = accept() ? std::move(out_) : keep_previous(std::max(1.0, (end - now_ms()) / 1e3));
    if (taken.choices != found_choices_) taken.rejected = found_;
    taken.fidelity = fidelity_, taken.flips = flips(taken);
    taken.samples = std::move(samples_);
    return taken;
  }

 private:
  void pick(size_t t) {
    const Candidate* best = search_.tasks()[t].winner(search_.noise(), skip_[t]);
    if (best != nullptr)
      picked_[t] = best->schedule;
    else
      picked_.erase(t);
  }

  void keep_to_budget() {
    const TargetLimits& limits = bench_.options().target.limits;
    for (;;) {
      std::vector<WeightClaim> claims;
      for (const auto& [t, schedule] : picked_) {
        const NetworkTask& of = search_.tasks()[t].task();
        const int64_t more = packed_bytes(of.task, schedule, limits) - packed_bytes(of.task, of.fallback, limits);
        const double gain = search_.share(t) * (1 - search_.tasks()[t].find(schedule)->ratios.cost());
        claims.push_back({t, more * static_cast<int64_t>(of.nodes.size()), gain});
      }
      const auto t = first_to_go(claims, weight_room(bench_.fallback().compiled));
      if (!t) return;
      skip_[*t].push_back(picked_.at(*t).text());
      pick(*t);
    }
  }

  Choices choices() const {
    Choices all;
    for (const auto& [t, schedule] : picked_) {
      for (const std::string& node : search_.tasks()[t].task().nodes) all[node] = schedule;
    }
    return all;
  }

  Contest hold(double seconds) {
    const Choices mine = choices();
    std::vector<Choices> all{mine};
    if (!previous_.empty() && previous_ != mine) all.push_back(previous_);
    return hold_contest(bench_, all, seconds, limits_.half_width);
  }

  void drop_faulty(const Contest& c) {
    release(bench_, c);
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
    keep_to_budget();
  }

  void note(const Contest& c) {
    out_.choices = choices();
    out_.same_plan = false;
    out_.rounds = c.rounds;
    out_.ratio = ratio_of(c.series[0], c.series[1]);
    out_.default_ms = bootstrap_mean(c.series[0].total);
    out_.tuned_ms = bootstrap_mean(c.series[1].total);
    if (c.ids.size() > 2) out_.previous = ratio_of(c.series[2], c.series[1]);
    double predicted = 1;
    for (const auto& [t, schedule] : picked_) {
      const Candidate* chosen = search_.tasks()[t].find(schedule);
      predicted -= search_.share(t) * (1 - chosen->ratios.cost());
      for (const std::string& node : search_.tasks()[t].task().nodes)
        out_.layers[node] = paired_ratio(c.series[0].layer.at(node), c.series[1].layer.at(node));
      const std::vector<std::string>& nodes = search_.tasks()[t].task().nodes;
      samples_.push_back(
          {t, schedule, layers_ratio(c.series[0], nodes, c.series[1], nodes), c.series[1].layer.at(nodes.front())});
    }
    fidelity_ = predicted / out_.ratio.value;
    found_ = RejectedPlan{out_.default_ms, out_.tuned_ms, out_.ratio, out_.rounds,
                          static_cast<int64_t>(out_.choices.size())};
    found_choices_ = out_.choices;
  }

  /// Tasks that are slower than by default in the whole network take their next best schedule; how many did.
  int64_t drop_losers(const Contest& c, bool last) {
    int64_t changed = 0;
    for (const auto& [t, schedule] : std::map<size_t, Schedule>(picked_)) {
      const std::vector<std::string>& nodes = search_.tasks()[t].task().nodes;
      const Ratio r = layers_ratio(c.series[0], nodes, c.series[1], nodes);
      if (r.low <= 1 && (!last || r.value <= 1)) continue;
      skip_[t].push_back(schedule.text());
      if (last)
        picked_.erase(t);
      else
        pick(t);
      ++changed;
    }
    keep_to_budget();
    return changed;
  }

  double flips(const FinalRace& taken) const {
    const auto flipped = std::ranges::count_if(first_, [&](const auto& winner) {
      const auto now = taken.accepted.find(winner.first);
      return now == taken.accepted.end() || now->second != winner.second.text();
    });
    return first_.empty() ? 0 : static_cast<double>(flipped) / static_cast<double>(first_.size());
  }

  /// Whether the plan that was raced last is taken; its figures then are complete.
  bool accept() {
    if (out_.choices.empty() || out_.ratio.high > 1) return false;
    if (out_.previous && out_.previous->low > 1) return false;
    for (const auto& [t, schedule] : picked_) out_.accepted[t] = schedule.text();
    return true;
  }

  /// The previous plan, where it still is faster than the default; else nothing, which stands for the default.
  FinalRace keep_previous(double seconds) {
    FinalRace kept;
    if (previous_.empty()) return kept;
    const Contest c = hold_contest(bench_, {previous_}, seconds, limits_.half_width);
    const bool ran = c.faults.empty();
    if (ran) kept.ratio = ratio_of(c.series[0], c.series[1]);
    release(bench_, c);
    if (!ran || kept.ratio.high > 1) return {};
    kept.choices = previous_;
    kept.same_plan = false, kept.kept = true;
    kept.rounds = c.rounds;
    kept.default_ms = bootstrap_mean(c.series[0].total), kept.tuned_ms = bootstrap_mean(c.series[1].total);
    for (size_t t = 0; t < search_.tasks().size(); ++t) note_kept(kept, c, t);
    return kept;
  }

  /// A task that the previous plan has a schedule for.
  void note_kept(FinalRace& kept, const Contest& c, size_t t) const {
    const std::string& node = search_.tasks()[t].task().nodes.front();
    const auto choice = previous_.find(node);
    if (choice == previous_.end() || !choice->second.schedule || !c.series[1].layer.contains(node)) return;
    kept.accepted[t] = choice->second.schedule->text();
    kept.layers[node] = paired_ratio(c.series[0].layer.at(node), c.series[1].layer.at(node));
  }

  NetworkBench& bench_;
  SearchRun& search_;
  const Choices previous_;
  const RaceLimits& limits_;
  std::map<size_t, Schedule> picked_, first_;        ///< by task
  std::map<size_t, std::vector<std::string>> skip_;  ///< by task: schedules that lost in the network
  std::vector<RaceSample> samples_;
  std::optional<RejectedPlan> found_;  ///< by the last race that was held
  Choices found_choices_;
  double fidelity_ = 1;
  FinalRace out_;
};

/// A plan of earlier days, where it is one still: the options may differ from those that it was made with.
Choices usable(NetworkBench& bench, Choices previous) {
  for (const auto& [node, schedule] : bench.options().schedules) previous.erase(node);
  try {
    const Compiled& compiled = bench.build(previous)->compiled;
    return compiled.weight_bytes <= compiled.weight_limit ? previous : Choices();
  } catch (const Error&) {
    return {};
  }
}

}  // namespace

FinalRace race_plans(NetworkBench& bench, SearchRun& search, const Choices& previous, const RaceLimits& limits) {
  return Racer(bench, search, usable(bench, previous), limits).run();
}

}  // namespace kilter::tune
