// Where the time of a network goes: rows that add up to the run, measured in the network, in its real order.
//
// Definitions. A row's time is the wall time of its region from fork to join, the barrier with it. sum = kernels +
// barriers + gaps, of the profiled runs; total = wall time of the profiled runs by another clock than the stamps';
// residual = total - sum. end to end = wall time of runs without profiling, interleaved with the profiled ones;
// overhead = total / end to end - 1. Profiled and plain passes run in pairs, and all are means over the same kept
// pairs: the middle half by the time of both passes, so rows add up exactly, one disturbed pass moves nothing, and both
// sides meet the same disturbances.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exec/executor.h"
#include "exec/schedule_source.h"
#include "measure/conditions.h"
#include "measure/counters.h"
#include "measure/quiet.h"
#include "measure/stats.h"
#include "profile/bounds.h"

namespace kilter::profile {

enum class RowKind : uint8_t {
  layer,      ///< machine code of a task
  pack,       ///< packs an operand in every run
  relayout,   ///< changes the layout of a tensor and nothing else
  halo,       ///< zeroes the rim of a buffer
  copy,       ///< plain copy
  reference,  ///< reference kernel: no schedule exists
  gap,        ///< between regions, on the caller's thread
};
std::string_view name(RowKind kind);

/// Milliseconds of one run over the kept passes.
struct Time {
  double mean = 0, low = 0, high = 0;  ///< low, high: 10th and 90th percentile
};

struct Row {
  RowKind kind = RowKind::layer;
  int64_t step = -1;  ///< index in the plan; -1 for gaps
  StepRole role = StepRole::layer;
  std::string name, ops, problem, schedule, shapes, layouts, key;
  std::string stage;                               ///< of stages_of()
  std::string record;                              ///< Step::record: what the schedule comes from, empty: the default
  int64_t count = 0;                               ///< times it ran in one run
  Time time;                                       ///< of one run, all its times together
  double percent = 0;                              ///< of sum
  double barrier_ms = 0;                           ///< part of time: fork to the first begin, and the last end to join
  double gap_ms = 0;                               ///< between the region before and this one; not part of time
  std::vector<double> busy_ms;                     ///< by thread
  int threads = 1;                                 ///< that took part
  double balance = 1;                              ///< mean of their busy times over the largest
  int64_t flops = 0, bytes = 0, weight_bytes = 0;  ///< of one run: executed; operands read and written once
  int64_t effective_flops = 0;                     ///< of the operators as the standard defines them
  Bound bound;
  CounterValues counters;  ///< of one run, all threads; nothing where Options::count is off or the machine has none

  /// What no other row of the profile is called: "conv1", and "conv1 (transform)" for what runs before it.
  std::string label() const { return stage.empty() ? name : fmt::format("{} ({})", name, stage); }
  ScheduleSource from() const { return schedule_source(record); }
  double gflops() const { return time.mean > 0 ? static_cast<double>(flops) / time.mean * 1e-6 : 0; }
  double effective_gflops() const {
    return time.mean > 0 ? static_cast<double>(effective_flops) / time.mean * 1e-6 : 0;
  }
  double gbps() const { return time.mean > 0 ? static_cast<double>(bytes) / time.mean * 1e-6 : 0; }
  /// Share of the bound that is reached; 0 where no bound is known. Above 1 it says that the bound is wrong.
  double share() const { return time.mean > 0 ? bound.ms / time.mean : 0; }
  /// Faster than the bound by more than the error of the peaks.
  bool beats_bound() const { return share() > 1 + kPeakError; }
};

/// One stretch of one thread in the typical pass (the kept one whose total is nearest to the mean).
struct Event {
  size_t row = 0;
  int thread = 0;
  double begin_us = 0, end_us = 0;
};

/// What tuning would change, as a cause of a network's time.
struct TuningGain {
  enum Kind : uint8_t { unused, untuned } kind = untuned;  ///< what is known and not in use; what is not tried yet
  std::string evidence;
  double gain_ms = 0;  ///< expected
  std::string advice, action;
};

/// What tuning has brought and may bring.
struct Tuning {
  std::string summary;             ///< one line
  std::vector<std::string> lines;  ///< all that is known
  std::string action;              ///< command to paste that tunes
  std::vector<TuningGain> gains = {};
};

struct Profile {
  std::string model;
  Conditions conditions;
  Peaks peaks;
  int threads = 1;
  double total_ms = 0, sum_ms = 0, end_to_end_ms = 0, residual_ms = 0, overhead_percent = 0;
  double kernels_ms = 0, barriers_ms = 0, gaps_ms = 0;
  Time total, end_to_end;
  /// sum over end to end, with the 95 % interval of the pairs that they are made of.
  Ratio sum_over_end_to_end;
  int64_t passes = 0;  ///< profiled; as many ran without profiling
  int64_t kept = 0;
  std::vector<Row> rows;  ///< in the order of their first run, then gaps
  std::vector<Event> timeline;
  std::vector<ArenaSpan> arena;
  std::string
      no_counters;  ///< why there are no hardware counters, one line; empty when there are or none were asked for
  int64_t arena_bytes = 0, constants_bytes = 0, scratch_bytes = 0, code_bytes = 0;
  std::optional<Tuning> tuning;  ///< the caller's, who knows the records
};

/// How far the sum may be from the end-to-end time.
constexpr double kSumLimit = 0.03;
enum class Agreement : uint8_t {
  agree,    ///< the interval of their ratio touches 1 +- kSumLimit
  unknown,  ///< it does, and is wider than that: more runs are needed to tell
  differ,
};
Agreement agreement(const Ratio& sum_over_end_to_end);
/// "agree", "unknown", "differ".
std::string_view name(Agreement agreement);

/// "2 layers beat their bounds, ...": which, by how much, and why; empty where none does.
std::string beaten_text(const Profile& profile);
/// "87 %" of the bound, at most "100 %"; "beaten" where the bound is.
std::string bound_share_text(const Row& row);

struct Options {
  double seconds = 3;  ///< to measure; longer where min_passes asks for it
  int min_passes = 12;
  int max_passes = 4000;
  uint64_t seed = 1;
  bool count = false;  ///< hardware counters, in runs of their own
  bool peaks = true;   ///< measure the machine's peaks first; without them rows have no bounds
  std::function<QuietReading()> read_quiet = kilter::read_quiet;  ///< for tests
  /// Called around the steps of one profiled pass when it answers an observer; for tests that disturb a pass.
  std::function<const StepObserver*(int64_t pass)> observer;
  std::function<void(double share_done)> progress;
};

/// Profiles an instance on these tensors (Instance::run). `threads`: of its pool. Fills everything but model and
/// conditions' program fields from the plan.
Profile collect(Instance& instance, const Plan& plan, int threads, std::span<const std::byte* const> inputs,
                std::span<std::byte* const> outputs, const Options& options = {});

/// What a measurement of this plan on `threads` threads on this machine now holds for; the caller adds the samples and
/// the program's version.
Conditions conditions_of(const Plan& plan, int threads);

/// By step, what tells it from others of the plan with its name: "transform" of Winograd's tiles, "pack" of an operand,
/// "stage 1"; empty for the last kernel of a layer, which keeps the name alone.
std::vector<std::string> stages_of(const Plan& plan);
/// Names of all steps with their stages, as Row::label() has them.
std::vector<std::string> labels_of(const Plan& plan);

/// Rows that share an operator, a task (problem), added up; `by` is "layer" (as they are), "operator" or "task". Throws
/// usage naming the legal words.
std::vector<Row> group(const std::vector<Row>& rows, std::string_view by);

}  // namespace kilter::profile
