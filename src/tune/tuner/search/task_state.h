// One task while it is tuned: what was tried, what it cost, what to try next.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tune/records/record.h"
#include "tune/search/searcher.h"
#include "tune/space/prune.h"
#include "tune/tuner/noise.h"

namespace kilter::tune {

/// Layers with one problem and one form of operands are one task.
struct NetworkTask {
  Task task;  ///< of the first layer; refers to a graph that outlives it
  std::string problem, layouts;
  std::vector<std::string> nodes;  ///< anchors of the layers, in the order of the steps
  Schedule fallback;               ///< the default schedule
  int64_t number = 0;              ///< as `kilter tasks` lists it
};

/// A schedule of a task that was tried.
struct Candidate {
  Schedule schedule;
  Status status = Status::ok;
  std::string error;     ///< in words, unless ok
  LogRatios ratios;      ///< time over the default's, in pairs
  double bound_ms = 0;   ///< of its kernels; 0: not known
  int64_t order = 0;     ///< among those with ratios, by their first trials; those of earlier records come first
  bool pending = false;  ///< a trial is under way
};

struct TaskOptions {
  SearchOptions search;
  TargetLimits limits;
  Accuracy accuracy = Accuracy::normal;
  std::vector<Forbidden> forbidden;
  int threads = 1;
  const PointModel* pretrained = nullptr;
  /// What tasks teach each other, for searchers that learn with XGBoost: each adds its trials and reads the others'.
  EarlierTrials* lessons = nullptr;
  int64_t most_samples = 40;  ///< of a candidate; the race of two that are as good ends there
};

class TaskState {
 public:
  /// `known`: records of exactly this task, of earlier sittings; `group`: its number among the lessons.
  TaskState(NetworkTask task, const TaskOptions& options, std::span<const Record> known, uint32_t group = 0);
  TaskState(const TaskState&) = delete;  // its space refers to its task
  TaskState& operator=(const TaskState&) = delete;

  const NetworkTask& task() const { return task_; }
  const Space& space() const { return *space_; }
  const Pruned& pruned() const { return pruned_; }
  int64_t trials() const { return trials_; }
  /// Schedules that ran or failed; not those that are under way, and not the default.
  int64_t tried() const;
  /// Those of tried() that earlier records told of.
  int64_t tried_before() const { return tried_before_; }
  /// Schedules that are worth a trial: what pruning leaves, without the default.
  int64_t size() const { return std::max<int64_t>(static_cast<int64_t>(pruned_.points.size()) - 1, 0); }

  /// A schedule that explore() answers before any other; not one that was tried, that is the default, or that the space
  /// does not have. Whether it is one.
  bool advise(const Schedule& schedule);
  /// Up to `most` schedules that were not tried yet; none when the searcher has nothing left.
  std::vector<Schedule> explore(size_t most);
  /// Up to `most` schedules that may be the best and whose time is not known well enough, those first whose interval
  /// begins lowest. They are under way until trial(), fail() or put_back().
  std::vector<Schedule> contenders(size_t most, double noise);
  /// The searcher has nothing left to propose.
  bool explored() const { return explored_; }

  /// A trial of a candidate on one layer: a ratio a round. Whether it is the first of the candidate.
  bool trial(const Schedule& schedule, std::span<const double> ratios);
  /// A trial that said nothing.
  void put_back(const Schedule& schedule) { entry(schedule).pending = false; }
  void note_bound(const Schedule& schedule, double ms) { entry(schedule).bound_ms = ms; }
  void fail(const Schedule& schedule, Status status, const std::string& error);
  /// Tells the searcher what came of the trials since the last call. Whether the task is believed to have become half a
  /// percent faster since it last was.
  bool learn(double noise);

  /// The candidate with the lowest cost, the default (cost 1) among them.
  const Candidate* leader() const;
  /// Up to `most` candidates whose intervals lie below 1, lowest upper end first. `skip`: texts that do not count.
  std::vector<const Candidate*> winners(size_t most, double noise, const std::vector<std::string>& skip = {}) const;
  /// The first of them; null: the default stays.
  const Candidate* winner(double noise, const std::vector<std::string>& skip = {}) const;
  /// Of all candidates that run.
  Beliefs beliefs(double noise) const;
  /// Share of the task's time that is expected to be left to gain (left.h); 0 where every schedule was tried.
  double left(double noise) const;
  /// What the task is believed to cost with its winner: 1, the default's, at most.
  double believed_cost(double noise) const;
  /// Of a schedule that was tried.
  const Candidate* find(const Schedule& schedule) const;
  const std::map<std::string, Candidate>& candidates() const { return candidates_; }
  /// Cost of the candidate that was measured last; 1 before the first.
  double current() const { return current_; }
  /// Trials since learn() last said that the task became faster.
  int64_t dry() const { return dry_; }

 private:
  Candidate& entry(const Schedule& schedule);
  void seed(std::span<const Record> known);
  /// Adds to the lessons, as long as it has not given its share of them.
  void teach(const Trial& trial);

  NetworkTask task_;
  TaskOptions options_;
  std::unique_ptr<Space> space_;
  Pruned pruned_;
  std::unique_ptr<TrainablePointModel> trained_;  ///< of searchers that learn with XGBoost
  std::unique_ptr<Searcher> searcher_;
  std::map<std::string, Candidate> candidates_;  ///< by text; the default is not among them
  std::vector<std::string> news_;                ///< not told to the searcher yet
  std::optional<Schedule> advised_;              ///< not tried yet
  bool explored_ = false;
  int64_t trials_ = 0, dry_ = 0, tried_before_ = 0;
  int64_t ordered_ = 0;  ///< Candidate::order of the last one
  uint32_t group_;
  std::optional<Featurizer> features_;  ///< where there are lessons
  size_t taught_ = 0;
  double current_ = 1;
  double best_ = 1;  ///< what the task was believed to cost when dry_ was 0; more where it is believed no longer
};

}  // namespace kilter::tune
