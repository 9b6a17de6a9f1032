// The end of a tuning run: whole networks against one another, and layers that lose there give way.
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
  double seconds = 20;        ///< of all races together
  double half_width = 0.003;  ///< of the interval of the ratio that ends a race early
  int attempts = 5;           ///< plans that are tried
  bool in_use = false;        ///< the previous plan was accepted by a race: it stays unless something is surely better
  bool keep_others = false;   ///< layers that no task of this run has keep what the previous plan says of them
  std::function<bool()> interrupted;  ///< true leaves the races kInterruptedRace seconds
  std::function<void()> beat = {};    ///< called between rounds
};

/// What the layers of a task took in a race.
struct RaceSample {
  size_t task = 0;
  Schedule schedule;
  Ratio ratio;             ///< all layers together, over the default's
  std::vector<double> ms;  ///< of the first layer, by round
};

struct FinalRace {
  Choices choices;  ///< empty: the default stays
  Ratio default_ms, tuned_ms, ratio;
  bool same_plan = true;
  bool kept = false;                     ///< `choices` are the previous plan's: what was found is no better
  std::optional<Ratio> previous;         ///< tuned over previous, where that is another plan
  std::optional<RejectedPlan> rejected;  ///< what was found, where it is not in `choices`
  std::string given_up;                  ///< why the previous plan, which was in use, is not in `choices`; else empty
  std::string unheld;                    ///< why no race could be held, which says nothing of any plan; else empty
  int64_t rounds = 0;
  double fidelity = 1;  ///< of the plan that was found: ratio that its layers predicted, over the race's
  double flips = 0;     ///< share of the tasks with a winner whose winner is not in `choices`
  std::map<std::string, Ratio> layers;     ///< by anchor: tuned over default
  std::map<size_t, std::string> accepted;  ///< by task: text of the schedule
  std::vector<RaceSample> samples;         ///< of all plans that were raced, also of schedules that lost
};

/// Which plan stays after a race.
enum class Verdict : uint8_t { fallback, found, previous };
/// The plan that was found has to be surely faster than the default plan and than the previous one; else the previous
/// one stays: where it is `in_use`, unless it is surely slower than the default, else where it is surely faster.
/// `found`, `previous`: over the default; `over_previous`: found over previous; nothing where one of them was not
/// raced.
Verdict judge(const std::optional<Ratio>& found, const std::optional<Ratio>& over_previous,
              const std::optional<Ratio>& previous, bool in_use);

/// Races the winners of the search against the default plan and, where `previous` is not empty, against that one.
/// Before that the best three schedules of each task run in the network, in plans of the first, the second and the
/// third of all tasks, where the time is enough; each task goes on with the fastest of its own. Schedules whose layers
/// are slower than the default there are replaced by the next best, then by the default; so are those that gain least
/// for a byte where packed weights together take more than the network may have. Where the whole is not surely faster,
/// the schedules whose own layers are race alone. What is accepted is judge()'s word on the last race, whose rounds
/// chose nothing.
FinalRace race_plans(NetworkBench& bench, SearchRun& search, const Choices& previous, const RaceLimits& limits);

}  // namespace kilter::tune
