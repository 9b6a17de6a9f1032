// The end of a tuning run: a race between whole networks in which losing layers fall back to other schedules.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tune/tuner/search/search_run.h"

namespace kilter::tune {

struct RaceLimits {
  double seconds = 20;        ///< for all races together
  double half_width = 0.003;  ///< a race ends early at this half width of the ratio's interval
  int attempts = 5;           ///< number of plans to try
  bool in_use = false;  ///< the previous plan was accepted by a race: it stays unless something is certainly better
  bool keep_others = false;           ///< layers without a task in this run keep the previous plan's choices
  std::function<bool()> interrupted;  ///< true limits the remaining races to kInterruptedRace seconds
  std::function<void()> beat = {};    ///< called between rounds
};

/// The times of a task's layers in a race.
struct RaceSample {
  size_t task = 0;
  Schedule schedule;
  Ratio ratio;             ///< all layers together, over the default's
  std::vector<double> ms;  ///< of the first layer, by round
};

struct FinalRace {
  Choices choices;  ///< empty: the default stays
  Ratio default_ms, tuned_ms, ratio;
  Ratio score;  ///< of tuned over default by the objective; equals `ratio` if memory has no weight
  bool same_plan = true;
  bool kept = false;                     ///< `choices` are the previous plan's: the plan that was found is no better
  std::optional<Ratio> previous;         ///< tuned over previous, if that is a different plan
  std::optional<Ratio> previous_score;   ///< the same by the objective
  std::optional<RejectedPlan> rejected;  ///< the plan that was found, if it is not in `choices`
  std::string given_up;                  ///< why the previous plan was in use but is not in `choices`; otherwise empty
  std::string unheld;                    ///< why no race could be run (which is not about any plan), otherwise empty
  int64_t rounds = 0;
  double fidelity = 1;  ///< of the plan that was found: the ratio predicted from its layers, over the race's
  double flips = 0;     ///< of the tasks with a winner, the share whose winner is not in `choices`
  std::map<std::string, Ratio> layers;     ///< by anchor: tuned over default
  std::map<size_t, std::string> accepted;  ///< by task: text of the schedule
  std::vector<RaceSample> samples;         ///< from all plans that were raced, including schedules that lost
};

/// The plan that stays after a race.
enum class Verdict : uint8_t { fallback, found, previous };
/// Decides which plan stays. The plan that was found must be certainly faster than the default plan and than the
/// previous one. Otherwise the previous plan stays if it is certainly faster than the default or, with `in_use`, unless
/// it is certainly slower than the default. `found` and `previous` are scores over the default by the objective,
/// `over_previous` is the score of the first over the second; each is empty if one of its plans was not raced. "Faster"
/// means a lower score.
Verdict judge(const std::optional<Ratio>& found, const std::optional<Ratio>& over_previous,
              const std::optional<Ratio>& previous, bool in_use);

/// Races the winners of the search against the default plan and, if `previous` is not empty, against that plan. If
/// there is enough time, the best three schedules of each task first run in the network, in three plans (the first plan
/// runs the first choice of every task, the second plan the second, and the third plan the third), and each task
/// continues with its fastest schedule. Schedules whose layers are slower than the default's are replaced by the next
/// best and finally by the default. If packed weights together exceed the network's limit, the schedules that gain
/// least per byte are replaced in the same way. If the whole plan is not certainly faster, the schedules whose own
/// layers are certainly faster race without the others. judge() decides by the last race, whose rounds were not used to
/// choose anything.
FinalRace race_plans(NetworkBench& bench, SearchRun& search, const Choices& previous, const RaceLimits& limits);

}  // namespace kilter::tune
