// The graph tuner on a network that can run: alternatives of all layers, what they cost together, the best of it, and a
// race against what the best record of each task alone gives, and against the plan that is in use.
#pragma once

#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tune/records/record.h"
#include "tune/tuner/graph_best/alternatives.h"
#include "tune/tuner/graph_best/transform_bench.h"
#include "tune/tuner/race/reference_check.h"

namespace kilter::tune {

struct GraphTuneOptions {
  int threads = 1;
  std::string device;          ///< fingerprint
  std::string records;         ///< file beside which layout changes are kept; empty: they are not
  bool measure_anew = false;   ///< layout changes, though they are known
  RunnerOptions runner = {};   ///< for layout changes; threads are set here
  double measure_seconds = 8;  ///< of alternatives; compiling comes on top
  double race_seconds = 10;
  double end_ms = INFINITY;  ///< of now_ms(): both get less where it comes earlier
  size_t schedules = 4;      ///< of a layer, beside the default
  Solver solver = Solver::automatic;
  Choices accepted = {};  ///< the plan that is in use, where it is another than history-best: it has to lose, too
  std::function<ReferenceCheck(NetworkBench&, const Choices&)> check = check_choices;  ///< of what won
  bool keeps_history = false;  ///< where history-best is faster than the default and graph-best has not won
  std::function<bool()> interrupted = {};
  std::function<void()> beat = {};  ///< called between rounds of trials and of the race
};

/// Layers that differ from history-best, by what differs.
struct Differences {
  int64_t schedules = 0, threads = 0, layouts = 0, fusions = 0;
};

struct GraphBest {
  Choices choices;                      ///< the graph tuner's, after layers that lost in the race gave way
  bool won = false;                     ///< it is clearly faster than all that it was raced against; else these stay
  ReferenceCheck check;                 ///< of what won the race; where that is wrong, it has not won
  ReferenceCheck history_check;         ///< of history-best, where that is to be kept
  bool same_plan = true;                ///< it is history-best
  Ratio ratio;                          ///< over history-best, paired
  Ratio default_ratio;                  ///< over the default plan
  Ratio history_ratio;                  ///< of history-best over the default plan; 1 where that is history-best
  std::optional<Ratio> accepted_ratio;  ///< over GraphTuneOptions::accepted, where that ran and is another plan
  Ratio ms, default_ms;                 ///< of a run; the default plan's
  int64_t rounds = 0;                   ///< of the last race
  std::map<std::string, Ratio> raced;   ///< in it, by anchor: over the default's; those that both plans have
  // The problem and its answer:
  size_t layers = 0, alternatives = 0, edges = 0;
  Measured measured;
  ChoiceAnswer answer;    ///< of the first solution
  double history_ms = 0;  ///< that history-best takes by the same costs
  double prepare_ms = 0, solve_ms = 0, race_ms = 0;
  Differences differences;
  KnownTransforms transforms;
  LayerNetwork network;  ///< with what was measured

  /// Than everything that it was raced against, with the whole intervals.
  bool clearly_faster() const;
  /// Whether history-best may come in its place: it has not lost against the default plan, and is not known to be
  /// wrong.
  bool history_stands() const { return (rounds == 0 || history_is_faster()) && history_check.wrong.empty(); }
  /// History-best is clearly faster than the default plan, by the last race.
  bool history_is_faster() const { return rounds > 0 && history_ratio.high <= 1; }
};

/// `history`: what the best record of each task gives, raced already; empty: the default. What won is held against the
/// reference kernels before it counts. Throws what building variants throws, and usage for a solver that does not take
/// the problem.
GraphBest graph_best(NetworkBench& bench, std::span<const Record> records, const Choices& history,
                     const GraphTuneOptions& options);

/// The same without a run: costs from records and estimates, schedules alone; not raced.
GraphBest graph_best_of_records(const Compiled& compiled, const CompileOptions& compile,
                                std::span<const Record> records, const Choices& history,
                                const GraphTuneOptions& options);

}  // namespace kilter::tune
