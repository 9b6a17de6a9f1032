#include "tune/tuner/race/final_race.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "measure/clock.h"
#include "tune/tuner/plans/apply.h"
#include "tune/tuner/plans/weight_budget.h"
#include "tune/tuner/race/contest.h"

namespace kilter::tune {
namespace {

constexpr size_t kRanks = 3;         ///< schedules of a task that run in the first race
constexpr double kFirstRace = 0.4;   ///< share of the time
constexpr double kLeastRounds = 12;  ///< with fewer, the first race decides nothing

std::string layer_text(const Fault& fault) { return fault.layer + ": " + fault.words; }

class Racer {
 public:
  Racer(NetworkBench& bench, SearchRun& search, Choices previous, const RaceLimits& limits)
      : bench_(bench),
        search_(search),
        previous_(std::move(previous)),
        limits_(limits),
        end_(now_ms() + limits.seconds * 1e3, limits.interrupted, limits.beat) {
    if (limits.keep_others) others_ = others();
    for (size_t t = 0; t < search.tasks().size(); ++t) pick(t);
    keep_to_budget();
    first_ = picked_;
  }

  FinalRace run() {
    choose_ranks(limits_.seconds * kFirstRace);
    for (int attempt = 0; attempt <= limits_.attempts && !picked_.empty(); ++attempt) {
      const double seconds = end_.left_seconds();
      const int left = seconds > 0 ? limits_.attempts - attempt : 0;  // in the last attempt the plan stays as it is
      Contest contest = hold(std::max(1.0, left > 0 ? seconds / 2 : seconds));
      RaceEvent told{attempt + 1, static_cast<int64_t>(picked_.size()), 0, {}, {}, {}, 0};
      if (!contest.faults.empty()) {
        told.fault = contest.faults.front().words;
        search_.log().tell(search_.trials(), told);
        drop_faulty(contest);
        continue;
      }
      note(contest);
      int64_t given_way = left > 0 ? drop_losers(contest, left == 1) : 0;
      if (left > 0 && given_way == 0) given_way = keep_the_sure(contest);
      release(bench_, contest);
      told.rounds = out_.rounds, told.ratio = out_.ratio;
      told.default_ms = out_.default_ms, told.tuned_ms = out_.tuned_ms;
      told.given_way = given_way;
      search_.log().tell(search_.trials(), told);
      if (given_way == 0) break;
      out_ = {};
    }
    FinalRace taken = accepted(std::max(1.0, end_.left_seconds()));
    if (taken.choices != found_choices_) taken.rejected = found_;
    taken.fidelity = fidelity_, taken.flips = flips(taken);
    taken.samples = std::move(samples_);
    if (taken.choices.empty()) taken.unheld = unheld_;
    if (!taken.kept) taken.given_up = given_up_;
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
    const CpuLimits& limits = bench_.options().target.limits;
    for (;;) {
      std::vector<WeightClaim> claims;
      for (const auto& [t, schedule] : picked_) {
        const NetworkTask& of = search_.tasks()[t].task();
        const int64_t more = packed_bytes(of.task, schedule, limits) - packed_bytes(of.task, of.fallback, limits);
        const double own = search_.tasks()[t].find(schedule)->ratios.cost();
        const double gain = search_.share(t) * (1 - cost(t, schedule, own));
        claims.push_back({t, more * static_cast<int64_t>(of.nodes.size()), gain});
      }
      const auto t = first_to_go(claims, weight_room(bench_.fallback().compiled));
      if (!t) return;
      skip_[*t].push_back(picked_.at(*t).text());
      pick(*t);
    }
  }

  /// The cost of a schedule that takes `ratio` of the default's time, with the toll for its bytes. Infinite if memory
  /// has a weight and the schedule takes too long.
  double cost(size_t t, const Schedule& schedule, double ratio) const {
    if (search_.objective().weighs_memory() && ratio > kMostTime) return INFINITY;
    return ratio + search_.tasks()[t].find(schedule)->toll;
  }

  /// The score of one entrant over another.
  Ratio score(const Contest& c, size_t base, size_t other) const {
    const double bytes = bytes_ratio(memory_of(c, base, bench_.threads()), memory_of(c, other, bench_.threads()));
    return search_.objective().score(ratio_of(c.series[base], c.series[other]), bytes);
  }

  /// The previous plan's choices for layers without a task in this run.
  Choices others() const {
    Choices all = previous_;
    for (const TaskState& task : search_.tasks()) {
      for (const std::string& node : task.task().nodes) all.erase(node);
    }
    return all;
  }

  Choices choices_of(const std::map<size_t, Schedule>& picked) const {
    Choices all = others_;
    for (const auto& [t, schedule] : picked) {
      for (const std::string& node : search_.tasks()[t].task().nodes) all[node] = schedule;
    }
    return all;
  }
  Choices choices() const { return choices_of(picked_); }

  /// Races the best few schedules of each task in the network. The schedules of one rank, over all tasks, form a plan.
  void choose_ranks(double seconds) {
    std::vector<std::map<size_t, Schedule>> ranks(kRanks, picked_);
    bool several = false;
    for (const auto& [t, schedule] : picked_) {
      const auto best = search_.tasks()[t].winners(kRanks, search_.noise(), skip_[t]);
      for (size_t r = 0; r < kRanks; ++r) ranks[r][t] = best[std::min(r, best.size() - 1)]->schedule;
      several = several || best.size() > 1;
    }
    const double round_ms = 2 * static_cast<double>(kRanks + 1) * std::max(search_.default_ms(), 4.0);
    if (!several || seconds * 1e3 < kLeastRounds * round_ms) return;
    std::vector<Choices> plans;
    for (const auto& rank : ranks) plans.push_back(choices_of(rank));
    // The race uses all its time, since its verdicts are about single layers.
    const Contest contest = try_contest(plans, seconds, 0);
    if (contest.faults.empty()) {
      note_found(contest, plans.front(), ranks.front());
      for (const auto& [t, schedule] : std::map<size_t, Schedule>(picked_)) choose_rank(contest, ranks, t);
    } else {
      skip_faulty(contest, ranks);
    }
    release(bench_, contest);
    keep_to_budget();
  }

  /// Drops the schedules at fault in the race of several ranks. Plans load in order, so the one that failed to load
  /// comes directly after those that loaded.
  void skip_faulty(const Contest& c, const std::vector<std::map<size_t, Schedule>>& ranks) {
    for (const Fault& f : c.faults) {
      const size_t entrant = entrant_of(c, f).value_or(0);
      if (entrant == 0 || entrant > ranks.size()) continue;
      for (const auto& [t, schedule] : ranks[entrant - 1]) {
        if (std::ranges::count(search_.tasks()[t].task().nodes, f.layer) == 0) continue;
        skip_[t].push_back(schedule.text());
        pick(t);
      }
    }
  }

  void choose_rank(const Contest& c, const std::vector<std::map<size_t, Schedule>>& ranks, size_t t) {
    double best = 1;
    picked_.erase(t);
    for (size_t r = 0; r < ranks.size(); ++r) {
      const Schedule& schedule = ranks[r].at(t);
      if (r > 0 && schedule == ranks[r - 1].at(t)) break;  // no further schedules
      note_sample(c, r + 1, t, schedule);
      const double value = cost(t, schedule, samples_.back().ratio.value);
      if (value < best) best = value, picked_[t] = schedule;
      if (value >= 1) skip_[t].push_back(schedule.text());
    }
  }

  void note_sample(const Contest& c, size_t entrant, size_t t, const Schedule& schedule) {
    const std::vector<std::string>& nodes = search_.tasks()[t].task().nodes;
    samples_.push_back({t, schedule, layers_ratio(c.series[0], nodes, c.series[entrant], nodes),
                        c.series[entrant].layer.at(nodes.front())});
  }

  /// Holds a contest. A plan that cannot be built is reported as a fault.
  Contest try_contest(const std::vector<Choices>& plans, double seconds, double half_width) {
    try {
      return hold_contest(bench_, plans, seconds, half_width, &end_);
    } catch (const Error& e) {
      Contest failed;
      failed.faults.push_back({0, FaultKind::crash, -1, "", e.message()});
      return failed;
    }
  }

  Contest hold(double seconds) {
    const Choices mine = choices();
    std::vector<Choices> all{mine};
    if (!previous_.empty() && previous_ != mine) all.push_back(previous_);
    return try_contest(all, seconds, limits_.half_width);
  }

  /// Drops the schedules at fault from the race. A fault without a layer may be the machine's, so the first one is only
  /// reported.
  void drop_faulty(const Contest& c) {
    release(bench_, c);
    const auto of_previous = [&](const Fault& f) { return entrant_of(c, f) == 2 && !f.layer.empty(); };
    if (const auto fault = std::ranges::find_if(c.faults, of_previous); fault != c.faults.end()) {
      previous_.clear();
      given_up_ = layer_text(*fault);
      return;
    }
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
    if (!found && !unheld_.empty()) picked_.clear();
    unheld_ = found ? "" : c.faults.front().words;
    keep_to_budget();
  }

  void note(const Contest& c) {
    unheld_.clear();
    out_.choices = choices();
    out_.same_plan = false;
    out_.rounds = c.rounds;
    out_.ratio = ratio_of(c.series[0], c.series[1]);
    out_.score = score(c, 0, 1);
    out_.default_ms = bootstrap_mean(c.series[0].total);
    out_.tuned_ms = bootstrap_mean(c.series[1].total);
    kept_.reset();
    if (c.ids.size() > 2) {
      out_.previous = ratio_of(c.series[2], c.series[1]);
      out_.previous_score = score(c, 2, 1);
      kept_ = kept_plan(c, 2);
    }
    for (const auto& [t, schedule] : picked_) {
      for (const std::string& node : search_.tasks()[t].task().nodes)
        out_.layers[node] = paired_ratio(c.series[0].layer.at(node), c.series[1].layer.at(node));
      note_sample(c, 1, t, schedule);
    }
    note_found(c, out_.choices, picked_);
  }

  /// Records a contest's verdict on its first plan, and how the prediction from the plan's layers compares with the
  /// measurement.
  void note_found(const Contest& c, const Choices& choices, const std::map<size_t, Schedule>& picked) {
    double predicted = 1;
    for (const auto& [t, schedule] : picked)
      predicted -= search_.share(t) * (1 - search_.tasks()[t].find(schedule)->ratios.cost());
    found_ = RejectedPlan{bootstrap_mean(c.series[0].total), bootstrap_mean(c.series[1].total),
                          ratio_of(c.series[0], c.series[1]), c.rounds, static_cast<int64_t>(choices.size())};
    found_choices_ = choices;
    fidelity_ = predicted / found_->ratio.value;
  }

  /// Moves tasks that are slower than the default in the whole network to their next best schedule. Returns how many
  /// changed.
  int64_t drop_losers(const Contest& c, bool last) {
    int64_t changed = 0;
    for (const auto& [t, schedule] : std::map<size_t, Schedule>(picked_)) {
      const std::vector<std::string>& nodes = search_.tasks()[t].task().nodes;
      const Ratio r = layers_ratio(c.series[0], nodes, c.series[1], nodes);
      if (cost(t, schedule, r.low) <= 1 && (!last || cost(t, schedule, r.value) <= 1)) continue;
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

  /// If the whole plan is not certainly faster, keeps only the tasks whose own layers are. Does this once. Returns how
  /// many tasks were dropped.
  int64_t keep_the_sure(const Contest& c) {
    if (narrowed_ || out_.score.high <= 1) return 0;
    narrowed_ = true;
    std::map<size_t, Schedule> sure;
    for (const auto& [t, schedule] : picked_) {
      const std::vector<std::string>& nodes = search_.tasks()[t].task().nodes;
      const double high = layers_ratio(c.series[0], nodes, c.series[1], nodes).high;
      if (cost(t, schedule, high) < 1) sure.emplace(t, schedule);
    }
    if (sure.empty()) return 0;
    const auto went = static_cast<int64_t>(picked_.size() - sure.size());
    picked_ = std::move(sure);
    return went;
  }

  double flips(const FinalRace& taken) const {
    const auto flipped = std::ranges::count_if(first_, [&](const auto& winner) {
      const auto now = taken.accepted.find(winner.first);
      return now == taken.accepted.end() || now->second != winner.second.text();
    });
    return first_.empty() ? 0 : static_cast<double>(flipped) / static_cast<double>(first_.size());
  }

  FinalRace accepted(double seconds) {
    const bool raced = !out_.choices.empty();
    if (raced && previous_ == out_.choices)
      kept_ = raced_again();
    else if (!kept_ && !previous_.empty())
      kept_ = race_previous(seconds);
    const auto score = [](const FinalRace& race) { return std::optional(race.score); };
    const auto previous = kept_ ? score(*kept_) : std::nullopt;
    switch (judge(raced ? score(out_) : std::nullopt, out_.previous_score, previous, limits_.in_use)) {
      case Verdict::found:
        for (const auto& [t, schedule] : picked_) out_.accepted[t] = schedule.text();
        return std::move(out_);
      case Verdict::previous:
        return std::move(*kept_);
      case Verdict::fallback:
        if (previous && search_.objective().weighs_memory())
          given_up_ = fmt::format("its score by {} was {}", text(search_.objective()), ratio_text(*previous));
        else if (previous)
          given_up_ = fmt::format("it took {} in this race", ratio_text(*previous));
        break;
    }
    return {};
  }

  /// The result if the plan that was found is the previous plan.
  FinalRace raced_again() const {
    FinalRace kept = out_;
    kept.kept = true;
    for (const auto& [t, schedule] : picked_) kept.accepted[t] = schedule.text();
    return kept;
  }

  std::optional<FinalRace> race_previous(double seconds) {
    std::optional<FinalRace> out;
    for (int attempt = 0; attempt < 2 && !out; ++attempt) {
      const Contest c = try_contest({previous_}, seconds, limits_.half_width);
      if (c.faults.empty()) out = kept_plan(c, 1);
      release(bench_, c);
      const bool named = !out && !c.faults.front().layer.empty();
      if (named) given_up_ = layer_text(c.faults.front());
      unheld_ = out || named ? "" : c.faults.front().words;
      if (named) break;
    }
    return out;
  }

  /// A contest's verdict on the previous plan, which is one of its entrants.
  FinalRace kept_plan(const Contest& c, size_t entrant) const {
    FinalRace kept;
    kept.ratio = ratio_of(c.series[0], c.series[entrant]);
    kept.score = score(c, 0, entrant);
    kept.choices = previous_;
    kept.same_plan = false, kept.kept = true;
    kept.rounds = c.rounds;
    kept.default_ms = bootstrap_mean(c.series[0].total), kept.tuned_ms = bootstrap_mean(c.series[entrant].total);
    for (size_t t = 0; t < search_.tasks().size(); ++t) note_kept(kept, c, entrant, t);
    return kept;
  }

  /// Records the result of a task if the previous plan has a schedule for it.
  void note_kept(FinalRace& kept, const Contest& c, size_t entrant, size_t t) const {
    const std::string& node = search_.tasks()[t].task().nodes.front();
    const auto choice = previous_.find(node);
    if (choice == previous_.end() || !choice->second.schedule || !c.series[entrant].layer.contains(node)) return;
    kept.accepted[t] = choice->second.schedule->text();
    kept.layers[node] = paired_ratio(c.series[0].layer.at(node), c.series[entrant].layer.at(node));
  }

  NetworkBench& bench_;
  SearchRun& search_;
  Choices previous_;  ///< empty: there is none, or it is at fault
  Choices others_;    ///< part of every plan that is raced
  const RaceLimits& limits_;
  RaceEnd end_;
  std::map<size_t, Schedule> picked_, first_;        ///< by task
  std::map<size_t, std::vector<std::string>> skip_;  ///< by task: schedules that lost in the network
  std::vector<RaceSample> samples_;
  std::optional<RejectedPlan> found_;  ///< in the last race that was completed
  Choices found_choices_;
  std::optional<FinalRace> kept_;  ///< the last race's verdict on the previous plan
  std::string unheld_;             ///< the fault without a layer that ended the last race
  std::string given_up_;           ///< FinalRace::given_up
  bool narrowed_ = false;
  double fidelity_ = 1;
  FinalRace out_;
};

/// Whether the schedule has failed since the plan was created, or is barred.
bool failed(const SearchRun& search, const std::string& node, const Schedule& schedule) {
  return std::ranges::any_of(search.tasks(), [&](const TaskState& task) {
    const Candidate* known = task.find(schedule);
    return known != nullptr && known->status != Status::ok && std::ranges::count(task.task().nodes, node) > 0;
  });
}

/// Returns the parts of an earlier plan that are still usable. Empty if it can no longer be compiled under these
/// options or its weights are too large.
Choices usable(NetworkBench& bench, const SearchRun& search, Choices previous) {
  previous = without_schedules(std::move(previous), [&](const std::string& node, const Schedule& schedule) {
    return failed(search, node, schedule);
  });
  for (const auto& [node, choice] : bench.options().choices) {
    if (choice.forced()) previous.erase(node);
  }
  try {
    const Compiled& compiled = bench.build(previous)->compiled;
    return compiled.weight_bytes <= compiled.weight_limit ? previous : Choices();
  } catch (const Error&) {
    return {};
  }
}

}  // namespace

Verdict judge(const std::optional<Ratio>& found, const std::optional<Ratio>& over_previous,
              const std::optional<Ratio>& previous, bool in_use) {
  const auto sure = [](const std::optional<Ratio>& ratio) { return ratio && ratio->high <= 1; };
  const bool previous_stays = in_use ? previous && previous->low < 1 : sure(previous);
  if (sure(found) && (!previous_stays || !over_previous || sure(over_previous))) return Verdict::found;
  return previous_stays ? Verdict::previous : Verdict::fallback;
}

FinalRace race_plans(NetworkBench& bench, SearchRun& search, const Choices& previous, const RaceLimits& limits) {
  const Choices now = usable(bench, search, previous);
  FinalRace race = Racer(bench, search, now, limits).run();
  if (now.empty() && !previous.empty())
    race.given_up = "it no longer compiles under these options, or one of its schedules has failed since";
  if (!limits.in_use) race.given_up.clear();
  return race;
}

}  // namespace kilter::tune
