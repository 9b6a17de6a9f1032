// The events of a tuning run, reported as they happen, and a bounded trace of them for plotting.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "measure/conditions.h"
#include "measure/stats.h"
#include "tune/records/record.h"

namespace kilter::tune {

/// A phase begins: "preparing", "searching", "racing", "choosing" (the graph tuner).
struct PhaseEvent {
  std::string phase;
};

/// The network runs under its default schedules, and its tasks are known. Events refer to tasks by number.
struct PreparedEvent {
  struct TaskRow {
    int64_t task = 0;  ///< its number in `kilter tasks`
    std::string problem, layouts;
    std::vector<std::string> nodes;  ///< anchors of its layers
    double share = 0;                ///< of the network's time under the default schedules
    std::string fallback, best;      ///< schedules: the default; the best according to earlier records, or the default
    int64_t size = 0;                ///< schedules worth a trial
  };
  double default_ms = 0;  ///< one run of the network
  Conditions conditions;  ///< of the trials
  std::vector<TaskRow> tasks;
};

/// The speed of a layer or a network. 0: unknown, or there is no arithmetic.
struct Speed {
  double gflops = 0;          ///< counted as the standard defines the operators
  double share_of_bound = 0;  ///< share of the speed that the kernels can reach
};

/// A schedule was measured on one layer, or failed there.
struct TrialEvent {
  int64_t task = 0;
  std::string node, schedule;
  Status status = Status::ok;
  std::string error;  ///< in words; empty if status is ok
  // The fields below are set only if status is ok.
  Ratio ratio;              ///< time over the default's, in this trial only
  Ratio so_far;             ///< from all samples of the schedule
  int64_t samples = 0;      ///< pairs of times in this trial
  int64_t all_samples = 0;  ///< in `so_far`, including those of earlier records
  Speed speed = {};         ///< according to `so_far`
};

/// The best schedule of a task changed. The best schedule is the one whose ratio has the confidence interval with the
/// lowest upper end, if that end is below 1. Later samples may revert this, even in favour of the default.
struct GainEvent {
  int64_t task = 0;
  std::string schedule;
  Ratio ratio;              ///< time over the default's; {1, 1, 1} for the default
  double predicted_ms = 0;  ///< one run of the network with the best schedules so far
  Speed speed = {};         ///< of a layer
};

/// Whole networks were raced: the best schedules of all tasks against the defaults.
struct RaceEvent {
  int attempt = 0;     ///< from 1
  int64_t tasks = 0;   ///< tasks that run a schedule other than the default
  int64_t rounds = 0;  ///< paired rounds; 0 if `fault` is set
  Ratio default_ms, tuned_ms;
  Ratio ratio;             ///< tuned over default
  int64_t given_way = 0;   ///< tasks that lost in this race and switch to a different schedule
  std::string fault = {};  ///< why the race could not be run, in words
};

/// `seconds`: time since the run began. `trials`: the number completed by then, not counting failures.
struct TuneEvent {
  double seconds = 0;
  int64_t trials = 0;
  std::variant<PhaseEvent, PreparedEvent, TrialEvent, GainEvent, RaceEvent> what;
};

/// The course of a run. For a long run, only every second, fourth, ... entry of `points` and `gains` is kept.
struct TuneTrace {
  struct Point {
    double seconds = 0;
    int64_t trials = 0;
    double predicted_ms = 0;  ///< with the best schedules so far
    double remaining = 0;     ///< expected further gain as a share of predicted_ms
  };
  struct Span {
    std::string phase;
    double begin = 0, end = 0;  ///< seconds
  };
  struct Gain {
    double seconds = 0;
    int64_t trials = 0;
    GainEvent what;
  };
  struct Race {
    double seconds = 0;
    RaceEvent what;
  };
  double default_ms = 0;      ///< PreparedEvent::default_ms
  std::vector<Point> points;  ///< after each batch of trials
  std::vector<Gain> gains;
  std::vector<Span> spans;
  std::vector<Race> races;
};

/// The maximum number of entries in TuneTrace::points and in TuneTrace::gains.
constexpr size_t kMostTraced = 2000;

/// Reports events to a listener and keeps the trace. Must be used from one thread.
class TuneLog {
 public:
  using Listener = std::function<void(const TuneEvent&)>;
  /// Marks the start of the run. `listener` may be empty.
  explicit TuneLog(Listener listener);

  double seconds() const;
  void tell(int64_t trials, decltype(TuneEvent::what) what);
  void point(int64_t trials, double predicted_ms, double remaining);
  /// Ends the last span and returns the trace.
  TuneTrace finish();

 private:
  Listener listener_;
  double start_ms_;
  TuneTrace trace_;
  int64_t point_stride_ = 1, gain_stride_ = 1, points_ = 0, gains_ = 0;
};

}  // namespace kilter::tune
