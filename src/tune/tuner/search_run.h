// The search of a tuning run: batches of whole-network variants, each layer of which carries a schedule on trial.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tune/tuner/events.h"
#include "tune/tuner/task_state.h"
#include "tune/tuner/tuner.h"

namespace kilter::tune {

/// A schedule on trial on one layer.
struct Probe {
  size_t task = 0;
  std::string node;
  Schedule schedule;
};

/// What a fault says of a schedule for good, as records keep it. Nothing for want of memory and for a worker that
/// others kill: the schedule is not tried again in this run, and may be in the next.
std::optional<Status> lasting_status(FaultKind kind);

class SearchRun {
 public:
  SearchRun(NetworkBench& bench, const TuneOptions& options, const CompileOptions& compile, TuneLog& log);

  /// Until `deadline` (milliseconds of now_ms()), or there is nothing left to learn.
  void run(double deadline_ms);

  std::deque<TaskState>& tasks() { return tasks_; }
  const std::deque<TaskState>& tasks() const { return tasks_; }
  double share(size_t task) const { return share_[task]; }
  double default_ms() const { return default_ms_; }
  /// Typical standard deviation of one log ratio.
  double noise() const { return noise_; }
  const Conditions& conditions() const { return conditions_; }
  TuneLog& log() { return log_; }
  /// Text of the best schedule of a task so far, the default's where none is surely faster.
  const std::string& best(size_t task) const { return best_[task]; }
  int64_t trials() const { return trials_; }
  int64_t failures() const { return failures_; }
  const std::string& stopped_because() const { return stopped_; }
  /// With the best schedules so far.
  double predicted_ms() const;
  /// A record of samples that were taken elsewhere, on the task's first layer.
  Record record(size_t task, const Schedule& schedule, std::span<const double> samples_ms, const Ratio& ratio) const;
  /// Expected further gain, a share of predicted_ms().
  double remaining() const;
  TuneProgress progress(const std::string& phase) const;
  void show(const std::string& phase);
  double compile_seconds() const { return compile_ms_ / 1e3; }
  double check_seconds() const { return check_ms_ / 1e3; }
  double measure_seconds() const { return measure_ms_ / 1e3; }

 private:
  struct Trialled {
    std::shared_ptr<const Variant> variant;
    std::vector<Probe> probes;
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
  std::vector<size_t> by_need(bool explore) const;
  /// Compiles what plan() chose, until cancelled_; schedules that cannot be compiled become failures.
  void build(Batch& batch);
  void build_one(Trialled& one);
  void measure(Batch& batch);
  std::vector<VariantId> load(Batch& batch, std::vector<size_t>& loaded);
  void note_faults(const Trialled& one, const std::vector<Fault>& faults, bool measured);
  double bound_of(const Variant& variant, const std::string& node) const;
  TaskProgress task_progress(size_t task) const;
  void note_laps(const Laps& laps, size_t which, const Trialled& one);
  void note_failure(const Probe& probe, Status status, const std::string& error);
  /// After a batch: searchers learn, records are kept.
  void finish();
  void note_gains();
  Record record(const Probe& probe, std::span<const double> samples_ms, const Ratio& ratio) const;
  bool over(double deadline_ms);

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
  std::deque<Probe> again_;                ///< could not be measured through no fault of theirs
  std::vector<Record> fresh_;
  double default_ms_ = 0, noise_ = 0.03, shown_ms_ = 0;
  double compile_ms_ = 0, check_ms_ = 0, measure_ms_ = 0;
  int64_t trials_ = 0, failures_ = 0, rounds_ = 2;
  int64_t planned_ = 0, batches_ = 0;   ///< batches: planned, and measured
  std::atomic<bool> cancelled_{false};  ///< building what nobody will measure
  std::string stopped_;
};

}  // namespace kilter::tune
