// The graph tuner for a network that can run: the alternatives of all layers with their costs, the best combination,
// and its race against the combination of each task's best record and against the plan in use.
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
#include "tune/tuner/objective.h"
#include "tune/tuner/race/reference_check.h"

namespace kilter::tune {

struct GraphTuneOptions {
  int threads = 1;
  std::string device;          ///< fingerprint
  std::string records;         ///< layout-change costs are stored next to this file; empty: they are not stored
  bool measure_anew = false;   ///< measure layout changes even if they are known
  RunnerOptions runner = {};   ///< for layout changes; threads are overridden
  double measure_seconds = 8;  ///< for alternatives, without compiling
  double race_seconds = 10;
  double end_ms = INFINITY;  ///< on the clock of now_ms(); if it comes earlier, measuring and racing are shortened
  size_t schedules = 4;      ///< for each layer, in addition to the default
  TuneObjective objective = {};
  Solver solver = Solver::automatic;
  Choices accepted = {};  ///< the plan in use, if it differs from history-best; graph-best must beat it, too
  std::function<ReferenceCheck(NetworkBench&, const Choices&)> check = check_choices;  ///< checks the plan that won
  bool keeps_history = false;  ///< keep history-best if it is faster than the default and graph-best has not won
  std::function<bool()> interrupted = {};
  std::function<void()> beat = {};  ///< called between rounds of trials and of the race
};

/// Number of layers that differ from history-best, by kind of difference.
struct Differences {
  int64_t schedules = 0, threads = 0, layouts = 0, fusions = 0;
};

struct GraphBest {
  Choices choices;                      ///< the graph tuner's, without layers that lost in the race
  bool won = false;                     ///< clearly better than all plans raced against it; if not, it is not used
  ReferenceCheck check;                 ///< of the fastest plan in the race; if the plan is wrong, it has not won
  ReferenceCheck history_check;         ///< of history-best, if it is about to be kept
  bool same_plan = true;                ///< `choices` equal history-best
  Ratio ratio;                          ///< over history-best, paired
  Ratio default_ratio;                  ///< over the default plan
  Ratio history_ratio;                  ///< history-best over the default plan; 1 if they are the same
  std::optional<Ratio> accepted_ratio;  ///< over GraphTuneOptions::accepted, if that ran and differs
  TuneObjective objective;
  double bytes = 1, default_bytes = 1, accepted_bytes = 1;  ///< the plan's over those of the same three plans
  Ratio ms, default_ms;                                     ///< of a run; of the default plan's run
  int64_t rounds = 0;                                       ///< of the last race
  std::map<std::string, Ratio> raced;  ///< in the last race, by anchor: over the default's; only layers in both plans
  // The problem and its solution:
  size_t layers = 0, alternatives = 0, edges = 0;
  Measured measured;
  ChoiceAnswer answer;    ///< of the first solution
  double graph_ms = 0;    ///< time of the solution by the costs of layers and layout changes
  double history_ms = 0;  ///< time of history-best by the same costs
  double prepare_ms = 0, solve_ms = 0, race_ms = 0;
  Differences differences;
  KnownTransforms transforms;
  LayerNetwork network;  ///< with the measurements

  /// Whether the plan has a better score than all others in its race, and the whole interval of each score is on the
  /// better side. Without a weight of memory, this means that it is faster.
  bool clearly_better() const;
  /// Whether history-best may be used instead: it has not lost to the default plan and is not known to be wrong.
  bool history_stands() const { return (rounds == 0 || history_is_faster()) && history_check.wrong.empty(); }
  /// Whether history-best is clearly faster than the default plan, according to the last race.
  bool history_is_faster() const { return rounds > 0 && history_ratio.high <= 1; }
};

/// Runs the graph tuner. `history`: the best record of each task, already raced; empty: the default. The winner is
/// checked against the reference kernels before it counts. Throws the errors of building variants, and usage for a
/// solver that cannot handle the problem.
GraphBest graph_best(NetworkBench& bench, std::span<const Record> records, const Choices& history,
                     const GraphTuneOptions& options);

/// Solves the problem without running anything: costs come from records and estimates, only schedules vary, and there
/// is no race.
GraphBest graph_best_of_records(const Compiled& compiled, const CompileOptions& compile,
                                std::span<const Record> records, const Choices& history,
                                const GraphTuneOptions& options);

}  // namespace kilter::tune
