// Shows where the time of a network goes. The rows add up to the run and are measured in the running network.
//
// Definitions. A row's time is the wall time of its region from fork to join, including the barrier. sum = kernels +
// barriers + gaps of the profiled runs. total = wall time of the profiled runs, by a clock other than that of the time
// stamps. residual = total - sum. end to end = wall time of runs without profiling, interleaved with the profiled ones.
// overhead = total / end to end - 1. Profiled and plain passes run in pairs, and all figures are means over the same
// kept pairs: the middle half by the time of both passes. The rows thus add up exactly, one disturbed pass has no
// effect, and disturbances affect both sides alike.
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
#include "measure/caches.h"
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
  halo,       ///< zeroes the border of a buffer
  copy,       ///< plain copy
  reference,  ///< reference kernel: no schedule exists
  gap,        ///< between regions, on the caller's thread
  // Instructions of a program (vm/program.h):
  segment,
  op,       ///< an operator on the host
  control,  ///< an operator with regions, without the instructions of its regions
};
std::string_view name(RowKind kind);

/// Milliseconds of one run, over the kept passes.
struct Time {
  double mean = 0, low = 0, high = 0;  ///< low, high: 10th and 90th percentile
};

struct Row {
  RowKind kind = RowKind::layer;
  int64_t step = -1;  ///< index in the plan, or of the instruction in the program; -1 for gaps
  StepRole role = StepRole::layer;
  std::string name, ops, problem, schedule, shapes, layouts, key;
  std::string stage;                               ///< of stages_of()
  std::vector<size_t> reads;                       ///< rows whose results it reads; none in a program
  std::vector<std::string> reads_inputs;           ///< names of the network's inputs that it reads
  std::string record;                              ///< Step::record, the origin of the schedule; empty: the default
  int64_t count = 0;                               ///< times it ran in one run
  Time time;                                       ///< of one run, all its executions together
  double percent = 0;                              ///< of sum
  double barrier_ms = 0;                           ///< part of `time`: fork to first begin plus last end to join
  double gap_ms = 0;                               ///< between the previous region and this one; not part of `time`
  std::vector<double> busy_ms;                     ///< by thread
  int threads = 1;                                 ///< number that took part
  int depth = 0;                                   ///< number of control rows that contain this row
  int64_t iterations = 0;                          ///< of a loop, in one run
  double whole_ms = 0;                             ///< of a control row, with the rows inside it
  double balance = 1;                              ///< the threads' mean busy time divided by the longest one
  int64_t flops = 0, bytes = 0, weight_bytes = 0;  ///< of one run: executed operations; operands read and written once
  int64_t effective_flops = 0;                     ///< of the operators as the standard defines them
  Bound bound;
  CounterValues counters;  ///< of one run, all threads; empty if Options::count is off or the machine has no counters

  /// Returns a name that is unique in the profile: "conv1", or "conv1 (transform)" for a stage that runs before it.
  std::string label() const { return stage.empty() ? name : fmt::format("{} ({})", name, stage); }
  ScheduleSource from() const { return schedule_source(record); }
  double gflops() const { return time.mean > 0 ? static_cast<double>(flops) / time.mean * 1e-6 : 0; }
  double effective_gflops() const {
    return time.mean > 0 ? static_cast<double>(effective_flops) / time.mean * 1e-6 : 0;
  }
  double gbps() const { return time.mean > 0 ? static_cast<double>(bytes) / time.mean * 1e-6 : 0; }
  /// Returns the share of the bound that is reached, or 0 if no bound is known. A share above 1 means that the bound is
  /// wrong.
  double share() const { return time.mean > 0 ? bound.ms / time.mean : 0; }
  /// Whether the row is faster than its bound by more than the error of the peaks.
  bool beats_bound() const { return share() > 1 + kPeakError; }
};

/// One interval of one thread in the typical pass (the kept pass whose total is nearest to the mean).
struct Event {
  size_t row = 0;
  int thread = 0;
  double begin_us = 0, end_us = 0;
};

/// A gain that tuning could bring, as a cause of a network's time.
struct TuningGain {
  enum Kind : uint8_t { unused, untuned } kind = untuned;  ///< schedules known but not in use; schedules not tried yet
  std::string evidence;
  double gain_ms = 0;  ///< expected
  std::string advice, action;
};

/// The gains that tuning has brought and may still bring.
struct Tuning {
  std::string summary;             ///< one line
  std::vector<std::string> lines;  ///< everything that is known
  std::string action;              ///< command that tunes the network
  std::vector<TuningGain> gains = {};
};

struct Profile {
  std::string model;
  Conditions conditions;
  Peaks peaks;
  int threads = 1;
  bool program = false;  ///< the rows are instructions of a program: the result of collect_program()
  /// The result of of_runs(): there are no barriers, times of threads, counters, and no runs without profiling.
  bool elsewhere = false;
  double total_ms = 0, sum_ms = 0, end_to_end_ms = 0, residual_ms = 0, overhead_percent = 0;
  double kernels_ms = 0, barriers_ms = 0, gaps_ms = 0;
  Time total, end_to_end;
  /// The sum divided by the end-to-end time, with the 95 % interval from pairs of passes.
  Ratio sum_over_end_to_end;
  int64_t passes = 0;  ///< profiled passes; as many ran without profiling
  int64_t kept = 0;
  std::vector<Row> rows;  ///< in the order of their first run, then gaps
  std::vector<Event> timeline;
  std::vector<ArenaSpan> arena;
  std::string no_counters;  ///< one line on why there are no counters; empty if there are any, or none were requested
  int64_t arena_bytes = 0, constants_bytes = 0, scratch_bytes = 0, code_bytes = 0;
  std::optional<Tuning> tuning;  ///< provided by the caller, who knows the records
};

/// The largest accepted difference between the sum and the end-to-end time.
constexpr double kSumLimit = 0.03;
enum class Agreement : uint8_t {
  agree,    ///< the interval of their ratio overlaps 1 +- kSumLimit
  unknown,  ///< it overlaps, but is too wide to tell: more runs are needed
  differ,
};
Agreement agreement(const Ratio& sum_over_end_to_end);
/// Returns "agree", "unknown" or "differ".
std::string_view name(Agreement agreement);

/// Returns "2 layers beat their bounds, ...", with names, amounts and the reason, or an empty string if none does.
std::string beaten_text(const Profile& profile);
/// Formats the share of the bound, e.g. "87 %", at most "100 %"; "beaten" if the layer beats its bound.
std::string bound_share_text(const Row& row);

struct Options {
  double seconds = 3;  ///< time to measure; longer if min_passes requires it
  int min_passes = 12;
  int max_passes = 4000;
  uint64_t seed = 1;
  bool count = false;  ///< read hardware counters, in separate runs
  bool peaks = true;   ///< measure the machine's peaks first; without them rows have no bounds
  std::function<QuietReading()> read_quiet = kilter::read_quiet;  ///< for tests
  /// Called before each profiled pass. An observer that it returns is called around the pass's steps. For tests that
  /// disturb a pass.
  std::function<const StepObserver*(int64_t pass)> observer;
  std::function<void(double share_done)> progress;
};

/// Profiles an instance on these tensors (see Instance::run). `threads` is the size of its pool. Fills in everything
/// except the model and the program fields of the conditions.
Profile collect(Instance& instance, const Plan& plan, int threads, std::span<const std::byte* const> inputs,
                std::span<std::byte* const> outputs, const Options& options = {});

/// The times of one run in milliseconds, by the clock of the machine that ran it.
struct RunTimes {
  double total = 0;
  std::vector<double> step, gap;  ///< by step: from fork to join, and before that
  Disturbance disturbance = {};
};
/// Returns the profile of runs of a plan on another machine, of which there must be some. Fills in the samples of
/// `conditions`. Leaves out disturbed runs if at most half of all are. The rows are means over the middle half of the
/// others by their totals, so they add up to the mean total. Rows have no bounds before set_bounds().
Profile of_runs(const Plan& plan, const Conditions& conditions, std::vector<RunTimes> runs);
/// Sets the bounds of a plan's rows. `peaks`: of the machine that ran the plan.
void set_bounds(Profile& profile, const Plan& plan, const Peaks& peaks);
/// Sets the bounds from the profile's peaks. If there are none, or if rows beat their bounds (then the measurement of
/// the peaks was disturbed), uses those that `measure` returns. Measures at most three times; without `measure`, never.
void set_bounds(Profile& profile, const Plan& plan, const std::function<Peaks()>& measure);

/// Returns the conditions of a measurement of this plan on `threads` threads on this machine now. The caller adds the
/// samples and the program's version.
Conditions conditions_of(const Plan& plan, int threads);
/// The same for another machine: `machine` contains what is known about it, including its device.
Conditions conditions_of(const Plan& plan, int threads, const CacheSizes& caches, Conditions machine);

/// Returns, for each step, a word that distinguishes it from other steps of the same name: "transform" for Winograd
/// tiles, "pack" for an operand, "stage 1"; empty for the last kernel of a layer, which keeps the plain name.
std::vector<std::string> stages_of(const Plan& plan);
/// Returns the names of all steps with their stages, as in Row::label().
std::vector<std::string> labels_of(const Plan& plan);

/// Returns a row that describes a step, without times, for one execution of it. `stage`: of stages_of().
Row row_of(const Plan& plan, size_t step, const std::string& stage);
/// Sets the number of threads and their balance from their busy times.
void set_threads(Row& row);

/// Adds up the rows that share an operator or a task (problem). `by` is "layer" (rows unchanged), "operator" or "task".
/// Throws usage naming the legal words.
std::vector<Row> group(const std::vector<Row>& rows, std::string_view by);

}  // namespace kilter::profile
