// The search of a tuning run: batches of whole-network variants, each layer of which carries a schedule on trial.
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

#include "tune/tuner/events.h"
#include "tune/tuner/search/building_turns.h"
#include "tune/tuner/search/retries.h"
#include "tune/tuner/search/task_state.h"
#include "tune/tuner/tuner.h"

namespace kilter::tune {

/// What a fault says of a schedule for good, as records keep it. Nothing for want of memory and for a worker that
/// others kill: the schedule is not tried again in this run, and may be in the next.
std::optional<Status> lasting_status(FaultKind kind);

class SearchRun {
 public:
  /// `recorded`: what records of any conditions give; tasks begin with it where it was not tried under these.
  SearchRun(NetworkBench& bench, const TuneOptions& options, const CompileOptions& compile, const Choices& recorded,
            TuneLog& log);

  /// Until `deadline` (milliseconds of now_ms()), or there is nothing left to learn.
  void run(double deadline_ms);

  std::deque<TaskState>& tasks() { return tasks_; }
  const std::deque<TaskState>& tasks() const { return tasks_; }
  double share(size_t task) const { return share_[task]; }
  double default_ms() const { return default_ms_; }
  /// Typical standard deviation of one log ratio.
  double noise() const { return noise_; }
  const Conditions& conditions() const { return conditions_; }
  /// The same with what all runs so far were disturbed by.
  Conditions conditions_of_runs() const;
  TuneLog& log() { return log_; }
  /// Text of the best schedule of a task so far, the default's where none is surely faster.
  const std::string& best(size_t task) const { return best_[task]; }
  int64_t trials() const { return trials_; }
  /// Those of trials() that were the first of their schedules.
  int64_t first_trials() const { return first_trials_; }
  /// How candidates are compiled beside the measurement, in words.
  std::string building() const { return building_.words(); }
  int64_t failures() const { return failures_; }
  const std::map<Status, FailedTrials>& failed() const { return failed_; }
  /// Trials as limits count them: failures are some, too.
  int64_t done() const { return trials_ + failures_; }
  /// Runs of the network that trials took, those of the default plan among them.
  int64_t runs() const { return runs_; }
  const std::string& stopped_because() const { return stopped_; }
  const EarlierRecords& earlier() const { return earlier_; }
  /// With the best schedules so far.
  double predicted_ms() const;
  /// A record of samples that were taken elsewhere, on the task's first layer.
  Record record(size_t task, const Schedule& schedule, std::span<const double> samples_ms, const Ratio& ratio) const;
  /// Expected further gain, a share of predicted_ms().
  double remaining() const;
  /// The part of it that as many new schedules as this run tried are expected to bring.
  double as_long_again() const;
  TuneProgress progress(const std::string& phase) const;
  /// Tells of progress: of a phase the first that is shown, then not more often than eyes follow; `with` changes what
  /// is told.
  void show(const std::string& phase, const std::function<void(TuneProgress&)>& with = {});
  double compile_seconds() const { return compile_ms_ / 1e3; }
  /// Least milliseconds of a layer's kernels in a variant; 0: not known, or it has none of the layer.
  double bound_of(const Variant& variant, const std::string& node) const;
  /// Of all kernels of a variant.
  double bound_of(const Variant& variant) const;
  int64_t network_flops() const;
  /// Of one layer that takes `cost` of the default's time, with its kernels' bound.
  Speed speed(size_t task, double cost, double bound_ms) const;
  double check_seconds() const { return check_ms_ / 1e3; }
  double measure_seconds() const { return measure_ms_ / 1e3; }

 private:
  struct Trialled {
    std::shared_ptr<const Variant> variant;  ///< null: it was not built
    std::vector<Probe> probes;
    std::map<std::string, Error> refused;  ///< by node: why its schedule does not compile
    bool apart = false;                    ///< the others compile one by one, and not together
  };
  struct Batch {
    std::vector<Trialled> variants;
    double ms = 0;  ///< of building them
    bool empty() const { return variants.empty(); }
  };

  class Ahead;

  void measure_default();
  Batch plan();
  std::vector<Probe> draw(bool explore, size_t most);
  /// Tasks that are worth probes in the next variant, those first that promise the network most.
  std::vector<size_t> by_promise(bool explore) const;
  double promise(size_t task) const;
  /// The end of the search, which no new schedule is worth: it would not be raced any more.
  bool late() const;
  /// Compiles what plan() chose until `stop` says so; schedules that cannot be compiled become failures.
  void build(Batch& batch, const std::function<bool()>& stop);
  void build_one(Trialled& one);
  void build_apart(Trialled& one);
  void measure(Batch& batch);
  /// Of the default plan; answers whether none is above what was measured.
  bool note_bounds();
  /// Throws where the default plan fails batch after batch.
  void note_default_faults(const Laps& laps);
  std::vector<VariantId> load(Batch& batch, std::vector<size_t>& loaded);
  /// Compiling a candidate takes longer than measuring it.
  bool building_is_slower() const { return compile_ms_ > check_ms_ + measure_ms_; }
  void search();
  void note_unbuilt(const Trialled& one);
  void note_faults(const Trialled& one, const std::vector<Fault>& faults, bool measured);
  /// Of one layer under the default or a schedule that was tried.
  double bound_ms(size_t task, const std::string& schedule) const;
  TaskProgress task_progress(size_t task) const;
  int64_t flops(const std::string& node) const;
  void note_laps(const Laps& laps, size_t which, const Trialled& one);
  void note_trial(const Probe& probe, const std::vector<double>& ratios, const std::vector<double>& samples_ms,
                  double bound_ms);
  /// `lasting`: also for later runs.
  void note_failure(const Probe& probe, Status status, const std::string& error, bool lasting);
  /// After a batch: searchers learn, records are kept, and then trials are told, so that none is lost that was told.
  void finish();
  void note_gains();
  Record record(const Probe& probe, std::span<const double> samples_ms, const Ratio& ratio) const;
  Record blank_record(const Probe& probe) const;
  bool over();

  NetworkBench& bench_;
  const TuneOptions& options_;
  TuneLog& log_;
  Conditions conditions_;
  EarlierTrials lessons_;
  std::deque<TaskState> tasks_;
  std::vector<double> share_;
  std::vector<std::string> best_;          ///< by task, as it was told last
  std::map<std::string, double> node_ms_;  ///< under the default, by anchor
  std::vector<double> bound_ms_;           ///< by task, of the default's kernels
  std::vector<double> promises_;           ///< by task, for the batch that is planned
  double network_bound_ms_ = 0;
  Retries again_;  ///< could not be measured through no fault of theirs
  std::vector<Record> fresh_;
  std::vector<std::pair<int64_t, TrialEvent>> untold_;  ///< with trials_ of then; told once their records are kept
  std::map<Status, FailedTrials> failed_;
  std::string shown_phase_;  ///< of what was shown last, at shown_ms_
  double default_ms_ = 0, noise_ = kUsualNoise, shown_ms_ = 0;
  double compile_ms_ = 0, check_ms_ = 0, measure_ms_ = 0;
  int64_t trials_ = 0, first_trials_ = 0, failures_ = 0, runs_ = 0, rounds_ = 2;
  int64_t last_gain_ = 0;              ///< done() when some task became faster
  int64_t planned_ = 0, batches_ = 0;  ///< batches: planned, and measured
  int64_t under_way_ = 0;              ///< probes that are planned and not measured
  int default_faults_ = 0;             ///< batches in a row in which the default plan failed
  double begin_ms_ = 0, deadline_ms_ = 0;
  BuildingTurns building_{false};
  EarlierRecords earlier_;
  std::atomic<bool> cancelled_{false};  ///< building what nobody will measure
  std::string stopped_;
};

}  // namespace kilter::tune
