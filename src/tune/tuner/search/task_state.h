// The state of one task during tuning: what was tried, what it cost, and what to try next.
#pragma once

#include <cstdint>
#include <functional>
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

/// Layers with the same problem and the same form of operands are one task.
struct NetworkTask {
  Task task;  ///< task of the first layer; refers to a graph that must outlive it
  std::string problem, layouts;
  std::vector<std::string> nodes;  ///< anchors of the layers, in the order of the steps
  Schedule fallback;               ///< the default schedule
  int64_t number = 0;              ///< the number that `kilter tasks` shows
};

/// A schedule of a task that was tried or is under way.
struct Candidate {
  Schedule schedule;
  Status status = Status::ok;
  std::string error;     ///< in words; empty if ok
  LogRatios ratios;      ///< time over the default's, in pairs
  double bound_ms = 0;   ///< lower bound for its kernels; 0: unknown
  int64_t order = 0;     ///< position among those with ratios, by first trial; earlier records come first
  bool pending = false;  ///< a trial is under way
  int64_t bytes = 0;     ///< of the plan, in excess of those with the default; 0 if memory has no weight
  double toll = 0;       ///< the cost of these bytes, in units of the default's time
};

struct TaskOptions {
  SearchOptions search;
  CpuLimits limits;
  Accuracy accuracy = Accuracy::normal;
  std::vector<Forbidden> forbidden;
  int threads = 1;
  const PointModel* pretrained = nullptr;
  /// Training data shared by the tasks, for searchers that learn with XGBoost: each task adds its trials and reads the
  /// others'.
  EarlierTrials* lessons = nullptr;
  int64_t most_samples = 40;  ///< of one candidate; ends the comparison of two that are equally good
};

class TaskState {
 public:
  /// `known`: records of exactly this task from earlier runs. `group`: the task's number in the lessons.
  TaskState(NetworkTask task, const TaskOptions& options, std::span<const Record> known, uint32_t group = 0);
  TaskState(const TaskState&) = delete;  // its space refers to its task
  TaskState& operator=(const TaskState&) = delete;

  const NetworkTask& task() const { return task_; }
  const Space& space() const { return *space_; }
  const Pruned& pruned() const { return pruned_; }
  int64_t trials() const { return trials_; }
  /// Schedules that ran or failed, without those under way and without the default.
  int64_t tried() const;
  /// The number of tried() schedules that come from earlier records.
  int64_t tried_before() const { return tried_before_; }
  /// Number of schedules worth a trial: those that pruning leaves, without the default.
  int64_t size() const { return std::max<int64_t>(static_cast<int64_t>(pruned_.points.size()) - 1, 0); }

  /// Makes explore() return this schedule before those that were not advised. Returns false and does nothing if it was
  /// tried already, is the default, or is not in the space.
  bool advise(const Schedule& schedule);
  /// Gives memory a weight: from now on, candidates are compared by score(), and those that take too long (kMostTime)
  /// cannot win. `bytes` returns the bytes that a plan needs in excess of its present ones if the task's layers run a
  /// schedule; each byte costs `toll`, in units of the default's time. Advises each template's best schedule if that
  /// saves bytes.
  void weigh(std::function<int64_t(const Schedule&)> bytes, double toll);
  /// Returns up to `most` schedules that were not tried yet; none if the searcher has nothing left.
  std::vector<Schedule> explore(size_t most);
  /// Returns up to `most` schedules that may be the best but whose time is not known well enough, ordered by the lower
  /// ends of their intervals. They are under way until trial(), fail() or put_back().
  std::vector<Schedule> contenders(size_t most, double noise);
  /// Whether the searcher has nothing left to propose.
  bool explored() const { return explored_; }

  /// Adds a trial of a candidate on one layer, with one ratio per round. Returns whether it is the candidate's first.
  bool trial(const Schedule& schedule, std::span<const double> ratios);
  /// Ends a trial that gave no information.
  void put_back(const Schedule& schedule) { entry(schedule).pending = false; }
  void note_bound(const Schedule& schedule, double ms) { entry(schedule).bound_ms = ms; }
  void fail(const Schedule& schedule, Status status, const std::string& error);
  /// Passes the results of all trials since the last call to the searcher. Returns whether the task is believed to have
  /// become half a percent faster since this function last returned true.
  bool learn(double noise);

  /// The measured candidate with the lowest cost and toll; null if none was measured. The default is not a candidate.
  const Candidate* leader() const;
  /// The cost of a candidate with its interval, plus the toll for its bytes.
  Ratio score(const Candidate& candidate, double noise) const;
  /// Returns up to `most` candidates whose scores have intervals below 1, ordered by the upper ends of these. `skip`:
  /// texts of schedules to leave out.
  std::vector<const Candidate*> winners(size_t most, double noise, const std::vector<std::string>& skip = {}) const;
  /// The first of winners(); null: the default stays.
  const Candidate* winner(double noise, const std::vector<std::string>& skip = {}) const;
  /// The beliefs based on all candidates that did not fail.
  Beliefs beliefs(double noise) const;
  /// Share of the task's time that is still expected to be gained (left.h); 0 if every schedule was tried.
  double left(double noise) const;
  /// The believed cost of the task with its winner; at most 1 (the default's) unless memory has a weight.
  double believed_cost(double noise) const;
  /// Returns the candidate of a schedule; null if it was not tried.
  const Candidate* find(const Schedule& schedule) const;
  const std::map<std::string, Candidate>& candidates() const { return candidates_; }
  /// Cost of the candidate measured last; 1 before the first.
  double current() const { return current_; }
  /// Number of trials since learn() last reported a gain.
  int64_t dry() const { return dry_; }

 private:
  Candidate& entry(const Schedule& schedule);
  void seed(std::span<const Record> known);
  /// Adds a trial to the lessons unless the task has contributed its maximum.
  void teach(const Trial& trial);

  NetworkTask task_;
  TaskOptions options_;
  std::unique_ptr<Space> space_;
  Pruned pruned_;
  std::unique_ptr<TrainablePointModel> trained_;  ///< for searchers that learn with XGBoost
  std::unique_ptr<Searcher> searcher_;
  std::map<std::string, Candidate> candidates_;    ///< by text; without the default
  std::vector<std::string> news_;                  ///< not yet passed to the searcher
  std::vector<Schedule> advised_;                  ///< not tried yet
  std::function<int64_t(const Schedule&)> bytes_;  ///< weigh(); empty: memory has no weight
  double toll_ = 0;
  bool explored_ = false;
  int64_t trials_ = 0, dry_ = 0, tried_before_ = 0;
  int64_t ordered_ = 0;  ///< Candidate::order of the latest
  uint32_t group_;
  std::optional<Featurizer> features_;  ///< set if there are lessons
  size_t taught_ = 0;
  double current_ = 1;
  double best_ = 1;  ///< believed cost and toll when dry_ was last 0; raised if they are no longer believed
};

}  // namespace kilter::tune
