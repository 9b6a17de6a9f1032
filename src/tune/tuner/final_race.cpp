#include "tune/tuner/final_race.h"

#include <algorithm>

#include "measure/clock.h"
#include "tune/tuner/contest.h"

namespace kilter::tune {
namespace {

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
      release(bench_, contest);
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
    out_.fidelity = predicted / out_.ratio.value;
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
