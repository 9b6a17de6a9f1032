// Tunes a network: finds schedules that are faster than the defaults, where they run, within a budget of seconds, and
// accepts them only after a race of whole networks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compile/compile.h"
#include "measure/conditions.h"
#include "tune/records/record.h"
#include "tune/search/options.h"
#include "tune/tuner/events.h"
#include "tune/tuner/graph_best/graph_best.h"
#include "tune/tuner/network_bench.h"
#include "tune/tuner/trial_options.h"

namespace kilter::tune {

/// How far a task has come. A cost is a time over the default's.
struct TaskProgress {
  int64_t number = 0;  ///< as `kilter tasks` lists it
  std::string problem;
  int64_t layers = 1;
  double share = 0;             ///< of the time of the network under the default schedules
  int64_t flops = 0;            ///< of one layer, as the standard defines its operators
  double default_ms = 0;        ///< of one layer
  double best = 1;              ///< cost of the best schedule: the default, or one that is surely faster
  double current = 1;           ///< cost of the schedule that was tried last
  double bound_ms = 0;          ///< of the best schedule's kernels; 0: not known
  std::string schedule;         ///< the best one
  int64_t tried = 0, size = 0;  ///< schedules; that are worth a trial

  double gflops(double cost) const { return static_cast<double>(flops) / (default_ms * cost) * 1e-6; }
  /// Of the best schedule; 0: not known.
  double share_of_bound() const { return bound_ms / (default_ms * best); }
};

/// How far a run has come.
struct TuneProgress {
  std::string phase;                       ///< "preparing", "searching", "racing", "choosing", "done"
  double seconds = 0, budget_seconds = 0;  ///< the budget may be infinite
  int64_t trials = 0, faults = 0, restarts = 0;
  int64_t most_trials = 0;  ///< 0: no limit
  double default_ms = 0;    ///< a run of the network
  double predicted_ms = 0;  ///< with the best schedules so far
  double remaining = 0;     ///< expected further gain, as a share of predicted_ms
  int64_t flops = 0;        ///< of the network, those of no task among them
  double bound_ms = 0;      ///< of its kernels with the best schedules so far; 0: not known
  Conditions runs;          ///< of the runs so far: taken, disturbed, by what, the best one
  std::vector<TaskProgress> tasks;

  /// A run with the schedule of each task that was tried last.
  double current_ms() const;
  double gflops(double ms) const { return static_cast<double>(flops) / ms * 1e-6; }
  double share_of_bound() const { return bound_ms / predicted_ms; }
  /// Until the budget is spent; infinite where the time has no limit.
  double seconds_left() const { return std::max(0.0, budget_seconds - seconds); }
};

struct TuneResult;

struct TuneOptions {
  double seconds = 300;        ///< all of it, races at the end included; may be infinite
  int64_t trials = 0;          ///< at most; 0: no limit
  int64_t early_stopping = 0;  ///< ends after so many trials without a gain anywhere; 0: never
  double until = 1;            ///< ends when so large a share of the speed that is expected to be found is there
  SearchOptions search;
  const PointModel* pretrained = nullptr;  ///< SearchSpace::pretrained of all tasks; null: the analytic estimate alone
  std::string cost_model = "none";         ///< what `pretrained` is: a file, "shipped" or "none"
  std::vector<std::string> ops;            ///< operators whose tasks are tuned; empty: all
  int threads = 1;
  bool graph_best = false;  ///< the graph tuner's plan is raced against the best of each task
  std::string records;      ///< file beside which layout changes are kept; empty: they are not
  TrialOptions trial;
  RunnerOptions runner;  ///< threads, inputs and timeout are set by tune()
  std::string network;   ///< for records
  std::string program, device;
  std::vector<Record> known;  ///< earlier ones, any: those of these conditions count as trials, others advise
  Choices previous;           ///< the plan that is in use; empty: what `known` gives (history_best_choices())
  std::function<ReferenceCheck(NetworkBench&, const Choices&)> check = check_choices;  ///< of the plan that won
  std::function<void(std::span<const Record>)> keep;  ///< gets the records of a batch when it is measured
  /// Gets the result of the races before the graph tuner has its turn, without what is counted at the end.
  std::function<void(const TuneResult&)> raced;
  std::function<void(const TuneProgress&)> progress;  ///< some times a second
  /// Milliseconds below which these steps of a plan cannot come on this machine; for TaskProgress, may be empty.
  std::function<double(const Plan&, const std::vector<size_t>&)> bound;
  /// Called where layers come below `bound`, which others disturbed then: it is to be measured again. May be empty.
  std::function<void()> better_bound;
  TuneLog::Listener event;            ///< gets everything that happens, as it happens
  std::function<bool()> interrupted;  ///< true ends the search; the races still run, but short
};

/// What a phase took.
struct PhaseTime {
  std::string phase;
  double seconds = 0;
};

/// A task at the end.
struct TunedTask {
  int64_t number = 0;  ///< as `kilter tasks` lists it
  std::string problem, layouts;
  std::vector<std::string> nodes;
  double share = 0;
  std::string fallback, schedule;  ///< default; accepted, which may be the same, of most of its layers
  int64_t otherwise = 0;           ///< layers that the graph tuner gave another one
  Ratio predicted;                 ///< as measured layer by layer while searching
  Ratio in_network;                ///< in the last race of whole networks
  int64_t trials = 0;              ///< of this run, failures too; a schedule may be measured several times
  int64_t tried = 0, size = 0;     ///< schedules, those of earlier records too; that are worth a trial
  int64_t failures = 0;            ///< of those tried
  std::string space;               ///< Pruned::text()
  Speed before, after;             ///< of the default in the search; of `schedule` as `in_network` has it
};

/// A plan that was raced and is not taken.
struct RejectedPlan {
  Ratio default_ms, ms, ratio;  ///< over the default, paired
  int64_t rounds = 0, layers = 0;
};

/// Trials that failed with one status.
struct FailedTrials {
  int64_t count = 0;
  int64_t task = 0;  ///< the first one's
  std::string schedule, error;
};

/// What the records of before are to a run.
struct EarlierRecords {
  int64_t all = 0;      ///< that were read
  int64_t here = 0;     ///< of this target, machine, number of threads and code generator: they count as trials
  int64_t advised = 0;  ///< tasks that begin with the schedule of another one
};

struct TuneResult {
  Choices choices;                 ///< what to compile with; empty: nothing is faster
  Choices history;                 ///< the best schedule of each task, as the races left it
  std::optional<GraphBest> graph;  ///< with TuneOptions::graph_best
  std::string graph_failed;        ///< why there is none though it was asked for: an error
  std::string graph_left_out;      ///< the same: there was no time for it, or it was not wanted after all
  Ratio default_ms, tuned_ms;
  Ratio ratio;          ///< tuned over default, paired; {1, 1, 1} when the plans are the same
  Ratio history_ratio;  ///< of `history` over the default, as the races found it; `ratio` where the graph tuner lost
  Speed before, after;  ///< of the network under the default and under the accepted plan
  bool same_plan = false;
  bool kept = false;                     ///< the previous plan stays: what was found is no better
  std::optional<Ratio> previous;         ///< tuned over the previous plan, where that is another one
  std::optional<RejectedPlan> rejected;  ///< what was found, where it is not taken
  std::string unheld;                    ///< FinalRace::unheld
  std::string refused;                   ///< why the plan that won the race is not taken: it is wrong, or unchecked
  std::string given_up;                  ///< FinalRace::given_up
  int64_t rounds = 0;                    ///< of the last race
  int64_t trials = 0, failures = 0, restarts = 0;
  bool confined = false;                  ///< Runner::confined()
  std::map<Status, FailedTrials> failed;  ///< what the failures were
  int64_t first_trials = 0;  ///< of these the first of their schedules; the others raced what may be the best
  std::string building;      ///< how candidates were compiled beside the measurement, in words
  int64_t runs = 0;          ///< of the network, the default plan's among them, that the trials took
  double seconds = 0, trials_per_second = 0;
  double regret = 0;         ///< expected distance from the best of the spaces, a share
  double as_long_again = 0;  ///< the part of it that another search as long as this one is expected to gain
  double flips = 0;          ///< share of the tasks with a winner whose winner the races did not take
  double fidelity = 1;       ///< ratio that the layers of the plan that was found predicted, over that of its race
  std::string stopped_because;
  EarlierRecords earlier;
  std::vector<PhaseTime> phases;
  std::vector<TunedTask> tasks;
  Conditions conditions;  ///< of the trials; taken, disturbed and best_ms are of all runs
  TuneTrace trace;
};

/// Throws what compiling throws, and unsupported when the network cannot be measured.
TuneResult tune(Graph graph, std::vector<Tensor> inputs, const CompileOptions& compile, const TuneOptions& options);

}  // namespace kilter::tune
