// The search of a tuning run: batches of whole-network variants in which each layer carries a schedule on trial.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "schedule/kernel_versions.h"
#include "tune/tuner/events.h"
#include "tune/tuner/race/lap_times.h"
#include "tune/tuner/search/building_turns.h"
#include "tune/tuner/search/retries.h"
#include "tune/tuner/search/task_state.h"
#include "tune/tuner/tuner.h"

namespace kilter::tune {

/// The lasting status that a fault gives a schedule in the records. Empty if memory ran out or another process killed
/// the worker: the schedule is not tried again in this run, but may be in the next.
std::optional<Status> lasting_status(FaultKind kind);

class SearchRun {
 public:
  /// `recorded`: the choices that records of any conditions give. Tasks start with them unless these schedules were
  /// already tried under the present conditions.
  SearchRun(NetworkBench& bench, const TuneOptions& options, const CompileOptions& compile, const Choices& recorded,
            TuneLog& log);

  /// Searches until `deadline_ms` (on the clock of now_ms()), or until there is nothing left to learn.
  void run(double deadline_ms);

  std::deque<TaskState>& tasks() { return tasks_; }
  const std::deque<TaskState>& tasks() const { return tasks_; }
  double share(size_t task) const { return share_[task]; }
  double default_ms() const { return default_ms_; }
  const TuneObjective& objective() const { return options_.objective; }
  /// Typical standard deviation of one log ratio.
  double noise() const { return noise_; }
  const Conditions& conditions() const { return conditions_; }
  /// The versions of the code that are written to records.
  const KernelVersions& versions() const { return versions_; }
  /// The conditions with the disturbances of all runs so far.
  Conditions conditions_of_runs() const;
  TuneLog& log() { return log_; }
  /// Text of a task's best schedule so far: the default unless a different one is certainly faster.
  const std::string& best(size_t task) const { return best_[task]; }
  int64_t trials() const { return trials_; }
  /// The number of trials() that were the first of their schedules.
  int64_t first_trials() const { return first_trials_; }
  /// Returns how candidates are compiled during the measurement, in words.
  std::string building() const { return building_.words(); }
  int64_t failures() const { return failures_; }
  const std::map<Status, FailedTrials>& failed() const { return failed_; }
  /// Number of trials as limits count them, including failures.
  int64_t done() const { return trials_ + failures_; }
  /// Runs of the network that the trials took, including those of the default plan.
  int64_t runs() const { return runs_; }
  const std::string& stopped_because() const { return stopped_; }
  const EarlierRecords& earlier() const { return earlier_; }
  /// Predicted time of a run with the best schedules so far.
  double predicted_ms() const;
  /// Predicted bytes of the plan with the best schedules so far; 0 if memory has no weight.
  int64_t predicted_bytes() const;
  /// Returns a record of samples of the task's first layer that were taken outside the search.
  Record record(size_t task, const Schedule& schedule, std::span<const double> samples_ms, const Ratio& ratio) const;
  /// Expected further gain as a share of predicted_ms().
  double remaining() const;
  /// The part of remaining() that new schedules are expected to bring, if as many are tried as in this run.
  double as_long_again() const;
  TuneProgress progress(const std::string& phase) const;
  /// Reports progress: always at the first call for a phase, then only as often as a reader can follow. `with` adjusts
  /// the report.
  void show(const std::string& phase, const std::function<void(TuneProgress&)>& with = {});
  double compile_seconds() const { return compile_ms_ / 1e3; }
  /// Lower bound in milliseconds for a layer's kernels in a variant; 0: unknown, or the layer has no kernels there.
  double bound_of(const Variant& variant, const std::string& node) const;
  /// Lower bound in milliseconds for all kernels of a variant.
  double bound_of(const Variant& variant) const;
  int64_t network_flops() const;
  /// Speed of one layer that takes `cost` of the default's time and whose kernels have the bound `bound_ms`.
  Speed speed(size_t task, double cost, double bound_ms) const;
  double check_seconds() const { return check_ms_ / 1e3; }
  double measure_seconds() const { return measure_ms_ / 1e3; }

 private:
  struct Trialled {
    std::shared_ptr<const Variant> variant;  ///< null if it was not built
    std::vector<Probe> probes;
    std::map<std::string, Error> refused;  ///< by node: why its schedule does not compile
    bool apart = false;                    ///< the others compile one by one but not together
  };
  struct Batch {
    std::vector<Trialled> variants;
    double ms = 0;  ///< building time
    bool empty() const { return variants.empty(); }
  };

  class Ahead;

  void measure_default();
  /// Makes the tasks weigh memory if the objective does.
  void weigh_memory();
  Batch plan();
  std::vector<Probe> draw(bool explore, size_t most);
  /// Tasks that deserve probes in the next variant, those with the greatest promise for the network first.
  std::vector<size_t> by_promise(bool explore) const;
  double promise(size_t task) const;
  /// Whether the search is so close to its end that a new schedule would no longer be raced.
  bool late() const;
  /// Compiles the schedules that plan() chose. Stops early if `stop` returns true. Schedules that cannot be compiled
  /// become failures.
  void build(Batch& batch, const std::function<bool()>& stop);
  void build_one(Trialled& one);
  void build_apart(Trialled& one);
  void measure(Batch& batch);
  /// Records the default plan's bounds. Returns whether none is above the measured time.
  bool note_bounds();
  /// Throws if the default plan fails in several consecutive batches.
  void note_default_faults(const Laps& laps);
  std::vector<VariantId> load(Batch& batch, std::vector<size_t>& loaded);
  /// Whether compiling has taken longer than checking and measuring.
  bool building_is_slower() const { return compile_ms_ > check_ms_ + measure_ms_; }
  void search();
  void note_unbuilt(const Trialled& one);
  void note_faults(const Trialled& one, const std::vector<Fault>& faults, bool measured);
  /// Bound of one layer under the default or under a schedule that was tried.
  double bound_ms(size_t task, const std::string& schedule) const;
  TaskProgress task_progress(size_t task) const;
  int64_t flops(const std::string& node) const;
  void note_laps(const Laps& laps, size_t which, const Trialled& one);
  void note_trial(const Probe& probe, const std::vector<double>& ratios, const std::vector<double>& samples_ms,
                  double bound_ms);
  /// `lasting`: the failure also applies to later runs.
  void note_failure(const Probe& probe, Status status, const std::string& error, bool lasting);
  /// Ends a batch: searchers learn, records are stored, and then trials are reported, so that every reported trial has
  /// been stored.
  void finish();
  void note_gains();
  Record record(const Probe& probe, std::span<const double> samples_ms, const Ratio& ratio) const;
  Record blank_record(const Probe& probe) const;
  bool over();

  NetworkBench& bench_;
  const TuneOptions& options_;
  TuneLog& log_;
  KernelVersions versions_;
  Conditions conditions_;
  EarlierTrials lessons_;
  std::deque<TaskState> tasks_;
  std::vector<double> share_;
  std::vector<std::string> best_;          ///< by task, as last reported
  std::map<std::string, double> node_ms_;  ///< under the default, by anchor
  UsualTimes usual_;                       ///< under the default, by anchor
  std::vector<double> bound_ms_;           ///< by task, of the default's kernels
  std::vector<double> promises_;           ///< by task, for the batch being planned
  double network_bound_ms_ = 0;
  Retries again_;  ///< probes that were not measured, for reasons outside the probes themselves
  std::vector<Record> fresh_;
  /// Events, each with the value of trials_ at its time; reported once their records are kept.
  std::vector<std::pair<int64_t, TrialEvent>> untold_;
  std::map<Status, FailedTrials> failed_;
  std::string shown_phase_;    ///< phase that was shown last, at shown_ms_
  int64_t default_bytes_ = 0;  ///< of the default plan; 0 if memory has no weight
  double default_ms_ = 0, noise_ = kUsualNoise, shown_ms_ = 0;
  double compile_ms_ = 0, check_ms_ = 0, measure_ms_ = 0;
  int64_t trials_ = 0, first_trials_ = 0, failures_ = 0, runs_ = 0, rounds_ = 2;
  int64_t last_gain_ = 0;              ///< done() at the last gain of any task
  int64_t planned_ = 0, batches_ = 0;  ///< batches planned; batches measured
  int64_t under_way_ = 0;              ///< probes planned and not yet measured
  int default_faults_ = 0;             ///< consecutive batches in which the default plan failed
  double begin_ms_ = 0, deadline_ms_ = 0;
  BuildingTurns building_{false};
  EarlierRecords earlier_;
  std::atomic<bool> cancelled_{false};  ///< stops building variants that will not be measured
  std::string stopped_;
};

}  // namespace kilter::tune
