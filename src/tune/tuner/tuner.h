// Tunes a network on the machine that will run it: searches for schedules that are faster than the defaults within a
// budget of seconds, and accepts them only after a race of whole networks.
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
#include "tune/tuner/objective.h"
#include "tune/tuner/plan_memory.h"
#include "tune/tuner/trial_options.h"

namespace kilter::tune {

/// The progress of one task. A cost is a time divided by the default schedule's time.
struct TaskProgress {
  int64_t number = 0;  ///< the number that `kilter tasks` shows
  std::string problem;
  std::string node;  ///< the name of its first layer
  int64_t layers = 1;
  double share = 0;             ///< of the network's time under the default schedules
  int64_t flops = 0;            ///< of one layer, counted as the standard defines its operators
  double default_ms = 0;        ///< of one layer
  double best = 1;              ///< cost of the best schedule: the default, or one that is certainly faster
  double current = 1;           ///< cost of the schedule tried last
  double bound_ms = 0;          ///< lower bound for the best schedule's kernels; 0: unknown
  std::string schedule;         ///< the best schedule
  int64_t more_bytes = 0;       ///< bytes that the plan needs with it beyond the default; 0 if memory has no weight
  int64_t tried = 0, size = 0;  ///< schedules tried; schedules worth a trial

  double gflops(double cost) const { return static_cast<double>(flops) / (default_ms * cost) * 1e-6; }
  /// Share of the lower bound that the best schedule reaches; 0: unknown.
  double share_of_bound() const { return bound_ms / (default_ms * best); }
};

/// The progress of a run.
struct TuneProgress {
  std::string phase;                       ///< "preparing", "searching", "racing", "choosing", "done"
  double seconds = 0, budget_seconds = 0;  ///< the budget may be infinite
  int64_t trials = 0, faults = 0, restarts = 0;
  int64_t most_trials = 0;  ///< 0: no limit
  double default_ms = 0;    ///< one run of the network
  double predicted_ms = 0;  ///< with the best schedules so far
  double remaining = 0;     ///< expected further gain as a share of predicted_ms
  /// The bytes of the default plan, and those predicted with the best schedules so far; 0 if memory has no weight.
  int64_t default_bytes = 0, predicted_bytes = 0;
  int64_t flops = 0;    ///< of the whole network, including nodes that belong to no task
  double bound_ms = 0;  ///< lower bound for its kernels with the best schedules so far; 0: unknown
  Conditions runs;      ///< of the runs so far: counts of all and of disturbed runs, disturbances, and best time
  std::vector<TaskProgress> tasks;

  /// Predicted time of a run with the schedule that each task tried last.
  double current_ms() const;
  double gflops(double ms) const { return static_cast<double>(flops) / ms * 1e-6; }
  double share_of_bound() const { return bound_ms / predicted_ms; }
  /// Seconds until the budget is spent; infinite if there is no time limit.
  double seconds_left() const { return std::max(0.0, budget_seconds - seconds); }
};

struct TuneResult;

struct TuneOptions {
  TuneObjective objective;     ///< what is minimised; records hold times in any case
  double seconds = 300;        ///< the whole budget, including the races at the end; may be infinite
  int64_t trials = 0;          ///< upper limit; 0: no limit
  int64_t early_stopping = 0;  ///< the search ends after this many trials without a gain in any task; 0: never
  double until = 1;            ///< the search ends when this share of the expected attainable speed is reached
  SearchOptions search;
  const PointModel* pretrained = nullptr;  ///< SearchSpace::pretrained for all tasks; null: only the analytic estimate
  std::string cost_model = "none";         ///< the source of `pretrained`: a file, "shipped" or "none"
  std::vector<std::string> ops;            ///< operators whose tasks are tuned; empty: all
  int threads = 1;
  bool graph_best = false;  ///< race the graph tuner's plan against the best schedule of each task
  std::string records;      ///< layout-change costs are stored next to this file; empty: they are not stored
  TrialOptions trial;
  RunnerOptions runner;  ///< threads, inputs and timeout are set by tune()
  std::string network;   ///< the name written to records
  std::string program, device;
  std::vector<Record> known;  ///< earlier records: those of these conditions count as trials, the others give advice
  Choices previous;           ///< the plan in use; empty: what `known` gives (history_best_choices())
  std::function<ReferenceCheck(NetworkBench&, const Choices&)> check = check_choices;  ///< checks the winning plan
  std::function<void(std::span<const Record>)> keep;  ///< receives the records of each batch once it is measured
  /// Receives the result of the races before the graph tuner's turn, without the totals that are computed at the end.
  std::function<void(const TuneResult&)> raced;
  std::function<void(const TuneProgress&)> progress;  ///< called a few times a second
  /// Lower bound in milliseconds for these steps of a plan on this machine. Feeds TaskProgress; may be empty.
  std::function<double(const Plan&, const std::vector<size_t>&)> bound;
  /// Called when layers run faster than `bound`, which means that the measurement of the bound was disturbed. The
  /// function must measure the bound again. May be empty.
  std::function<void()> better_bound;
  TuneLog::Listener event;            ///< receives every event as it happens
  std::function<bool()> interrupted;  ///< true ends the search; the races still run, but are kept short
};

/// The time that a phase took.
struct PhaseTime {
  std::string phase;
  double seconds = 0;
};

/// A task at the end of a run.
struct TunedTask {
  int64_t number = 0;  ///< the number that `kilter tasks` shows
  std::string problem, layouts;
  std::vector<std::string> nodes;
  double share = 0;
  std::string fallback, schedule;  ///< the default; the accepted schedule of most layers, possibly the default
  int64_t otherwise = 0;           ///< layers to which the graph tuner gave a different schedule
  Ratio predicted;                 ///< as measured layer by layer during the search
  Ratio in_network;                ///< as measured in the last race of whole networks
  int64_t trials = 0;              ///< in this run, including failures; a schedule may be measured several times
  int64_t tried = 0, size = 0;     ///< schedules tried, including those of earlier records; schedules worth a trial
  int64_t failures = 0;            ///< among the schedules tried
  std::string space;               ///< Pruned::text()
  Speed before, after;             ///< of the default in the search; of `schedule`, from `in_network`
};

/// A plan that was raced and not accepted.
struct RejectedPlan {
  Ratio default_ms, ms, ratio;  ///< `ratio`: over the default, paired
  int64_t rounds = 0, layers = 0;
};

/// Trials that failed with the same status.
struct FailedTrials {
  int64_t count = 0;
  int64_t task = 0;  ///< of the first such trial
  std::string schedule, error;
};

/// Counts of earlier records, and of their uses in a run.
struct EarlierRecords {
  int64_t all = 0;   ///< records read
  int64_t here = 0;  ///< records of this target, machine, number of threads and code generator, which count as trials
  int64_t advised = 0;  ///< tasks that start with the schedule of another task
};

struct TuneResult {
  TuneObjective objective;
  Choices choices;                 ///< the plan to compile with; empty: nothing is faster than the default
  Choices history;                 ///< the best schedule of each task, as the races left it
  std::optional<GraphBest> graph;  ///< with TuneOptions::graph_best
  std::string graph_failed;        ///< the error that left `graph` empty although it was requested
  std::string graph_left_out;      ///< the reason for skipping the graph tuner: no time, or no longer requested
  Ratio default_ms, tuned_ms;
  Ratio ratio;  ///< tuned over default, paired; {1, 1, 1} if the plans are the same
  PlanMemory default_memory, tuned_memory;
  /// The bytes of the accepted plan over the default plan's.
  double bytes_ratio() const;
  /// The score of the accepted plan over the default plan by the objective.
  Ratio score() const { return objective.score(ratio, bytes_ratio()); }
  Ratio history_ratio;  ///< `history` over the default, measured in the races; equals `ratio` if the graph tuner lost
  Speed before, after;  ///< of the network under the default and under the accepted plan
  bool same_plan = false;
  bool kept = false;                     ///< the previous plan stays because the plan that was found is no better
  std::optional<Ratio> previous;         ///< tuned over the previous plan, if that is a different plan
  std::optional<RejectedPlan> rejected;  ///< the plan that was found, if it is not accepted
  std::string unheld;                    ///< FinalRace::unheld
  std::string refused;                   ///< why the plan that won the race is not accepted: it is wrong, or unchecked
  std::string given_up;                  ///< FinalRace::given_up
  int64_t rounds = 0;                    ///< of the last race
  int64_t trials = 0, failures = 0, restarts = 0;
  bool confined = false;                  ///< Runner::confined()
  std::map<Status, FailedTrials> failed;  ///< failures by status
  int64_t first_trials = 0;  ///< trials that were the first of their schedules; others repeated likely winners
  std::string building;      ///< how candidates were compiled during the measurement, in words
  int64_t runs = 0;          ///< runs of the network that the trials took, including the default plan's
  double seconds = 0, trials_per_second = 0;
  double regret = 0;         ///< expected distance from the best schedules of the spaces, as a share
  double as_long_again = 0;  ///< the part of `regret` that another search of the same length is expected to gain
  double flips = 0;          ///< of the tasks with a winner, the share whose winner the races did not accept
  double fidelity = 1;       ///< ratio predicted from the layers of the plan that was found, over the ratio in its race
  std::string stopped_because;
  EarlierRecords earlier;
  std::vector<PhaseTime> phases;
  std::vector<TunedTask> tasks;
  Conditions conditions;  ///< of the trials; taken, disturbed and best_ms cover all runs
  TuneTrace trace;
};

/// Throws the errors of compiling, and unsupported if the network cannot be measured.
TuneResult tune(Graph graph, std::vector<Tensor> inputs, const CompileOptions& compile, const TuneOptions& options);

}  // namespace kilter::tune
