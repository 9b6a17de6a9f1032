// What happens in a tuning run, as it happens, and the bounded trace of it that a picture needs.
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

/// The network runs under its default schedules, and its tasks are known. Events name tasks by their numbers.
struct PreparedEvent {
  struct TaskRow {
    int64_t task = 0;  ///< its number, as `kilter tasks` lists it
    std::string problem, layouts;
    std::vector<std::string> nodes;  ///< anchors of its layers
    double share = 0;                ///< of the network's time under the default schedules
    std::string fallback, best;      ///< schedules: the default; the best by earlier records, else the default
    int64_t size = 0;                ///< schedules that are worth a trial
  };
  double default_ms = 0;  ///< a run of the network
  Conditions conditions;  ///< of the trials
  std::vector<TaskRow> tasks;
};

/// How fast a layer or a network runs. 0: not known, or without arithmetic.
struct Speed {
  double gflops = 0;          ///< of operations as the standard defines its operators
  double share_of_bound = 0;  ///< of what its kernels can reach
};

/// A schedule was measured on one layer, or failed there.
struct TrialEvent {
  int64_t task = 0;
  std::string node, schedule;
  Status status = Status::ok;
  std::string error;  ///< in words; empty where status is ok
  // The others are set where status is ok.
  Ratio ratio;              ///< time over the default's, of this trial alone
  Ratio so_far;             ///< of all its samples
  int64_t samples = 0;      ///< pairs of times in this trial
  int64_t all_samples = 0;  ///< in `so_far`, those of earlier records among them
  Speed speed = {};         ///< as `so_far` has it
};

/// The best schedule of a task is another one than before: one is the best when the whole interval of its ratio lies
/// below 1 and ends lowest. More samples may take that back, also in favour of the default.
struct GainEvent {
  int64_t task = 0;
  std::string schedule;
  Ratio ratio;              ///< time over the default's; {1, 1, 1} for the default
  double predicted_ms = 0;  ///< a run of the network with the best schedules so far
  Speed speed = {};         ///< of a layer
};

/// Whole networks were raced: the best schedules of all tasks against the defaults.
struct RaceEvent {
  int attempt = 0;     ///< from 1
  int64_t tasks = 0;   ///< that carry another schedule than the default
  int64_t rounds = 0;  ///< that were measured in pairs; 0 where `fault` is set
  Ratio default_ms, tuned_ms;
  Ratio ratio;             ///< tuned over default
  int64_t given_way = 0;   ///< tasks that lost in it and take another schedule
  std::string fault = {};  ///< why it could not be held, in words
};

/// `seconds`: since the run began. `trials`: that were done by then, failures not among them.
struct TuneEvent {
  double seconds = 0;
  int64_t trials = 0;
  std::variant<PhaseEvent, PreparedEvent, TrialEvent, GainEvent, RaceEvent> what;
};

/// The course of a run. Long ones keep every second, fourth, ... entry of `points` and `gains`.
struct TuneTrace {
  struct Point {
    double seconds = 0;
    int64_t trials = 0;
    double predicted_ms = 0;  ///< with the best schedules so far
    double remaining = 0;     ///< expected further gain, a share of predicted_ms
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
  double default_ms = 0;      ///< of PreparedEvent
  std::vector<Point> points;  ///< after each batch of trials
  std::vector<Gain> gains;
  std::vector<Span> spans;
  std::vector<Race> races;
};

/// Most entries of TuneTrace::points, and of TuneTrace::gains.
constexpr size_t kMostTraced = 2000;

/// Tells events to a listener and keeps the trace. One thread uses it.
class TuneLog {
 public:
  using Listener = std::function<void(const TuneEvent&)>;
  /// The run begins now. `listener` may be empty.
  explicit TuneLog(Listener listener);

  double seconds() const;
  void tell(int64_t trials, decltype(TuneEvent::what) what);
  void point(int64_t trials, double predicted_ms, double remaining);
  /// Ends the last span.
  TuneTrace finish();

 private:
  Listener listener_;
  double start_ms_;
  TuneTrace trace_;
  int64_t point_stride_ = 1, gain_stride_ = 1, points_ = 0, gains_ = 0;
};

}  // namespace kilter::tune
