// Measures candidates where they will run: in the network. A variant is a whole compiled network in which each layer
// carries some candidate; variants run interleaved in a worker process, with the time of every step.
//
//   Runner runner({.inputs = inputs, .threads = 1});
//   const VariantId best = *runner.load(plan, values).id;           // the first one is trusted to be right
//   const Loaded next = runner.load(other_plan, other_values);      // checked against it, step by step
//   const Laps laps = runner.measure({best, *next.id}, {.rounds = 10});
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/tensor.h"
#include "exec/plan.h"
#include "measure/quiet.h"
#include "tune/run/constant_store.h"
#include "tune/run/value.h"

namespace kilter::tune {

using VariantId = int64_t;

enum class FaultKind : uint8_t {
  crash,    ///< the worker died in the step, or its kernel answered that it failed
  timeout,  ///< it was killed, as the step did not end
  wrong,    ///< values, or what lies around buffers, are not what they must be
  memory,   ///< it needs more memory than the limit
};
/// "crash", "timeout", "wrong", "memory".
std::string_view name(FaultKind kind);

struct Fault {
  VariantId variant = 0;
  FaultKind kind = FaultKind::crash;
  int64_t step = -1;  ///< of the variant's plan; -1: none of them
  std::string layer;  ///< Step::name
  std::string words;  ///< "signal 11 (Segmentation fault) at step 17 'layer1.0.conv1' while checking: ..."
};

struct RunnerOptions {
  std::vector<Tensor> inputs = {};  ///< of all variants, in the order of Plan::inputs
  int threads = 1;
  std::vector<int> cpus = {};  ///< that the worker may run on; empty: those of this process
  double timeout_ms = 1000;    ///< a step that takes as long
  double timeout_factor = 20;  ///< and as many times as long as a whole run of the trusted variant is killed
  int64_t memory_bytes = 0;    ///< that the worker may take beside the constants; 0: half of what this process may use
  std::filesystem::path worker = {};            ///< program; empty: kilter-worker, found as find_worker() says
  std::filesystem::path reference_worker = {};  ///< for plans with reference steps; empty: kilter, found the same way
};

struct LoadOptions {
  bool check = true;     ///< against the trusted variant; off for a variant whose every step was checked in others
  bool find_all = true;  ///< after a crash or timeout, goes on with the other layers to find all that are at fault
};

struct Loaded {
  /// Set when the variant can be measured, also when steps of it are wrong: their times mean little, those of the
  /// other steps are sound.
  std::optional<VariantId> id;
  std::vector<Fault> faults;
  std::vector<double> step_ms;  ///< of the one run of the check, everything cold; empty without a check
};

enum class WarmUp : uint8_t {
  as_needed,  ///< a run that does not count before each turn, unless the network is larger than the caches
  always,
  never,
};

struct MeasureOptions {
  int64_t rounds = 1;   ///< in a round every variant has two turns: in random order, then in the opposite order
  double max_ms = 1e9;  ///< no new round after it, but the first
  double cut_off = 0;   ///< a variant whose fastest run is as many times the fastest of all has no more turns; 0: none
  double slice_ms = 2;  ///< a turn has as many runs as take this long,
  int64_t runs = 1;     ///< and so many at least
  WarmUp warm_up = WarmUp::as_needed;
  uint64_t seed = 1;  ///< of the order
  /// Of times that the worker keeps before it hands them over and goes on.
  int64_t log_bytes = int64_t{256} << 20;
};

/// One run of one variant.
struct Lap {
  int64_t round = 0;
  int64_t order = 0;            ///< among all laps of the measurement
  double total_ms = 0;          ///< of the run
  std::vector<double> step_ms;  ///< from fork to join
  std::vector<double> gap_ms;   ///< before each step
  /// At each step: how long the core took for instructions that do not wait for each other, over what it usually took
  /// in the measurement. From kShared on, another hardware thread worked on the core.
  std::vector<double> width;
  /// Its turn lost more time to others than is usual in the measurement: stolen by the hypervisor, or waiting for a
  /// CPU.
  bool held_up = false;
  Disturbance disturbance;  ///< of the turn that the run belongs to
};

constexpr double kShared = 1.15;

struct Laps {
  std::vector<VariantId> ids;
  std::vector<std::vector<Lap>> laps;  ///< by variant, in order
  std::vector<bool> cut;               ///< by variant: had no more turns, as it was too slow
  std::vector<Fault> faults;           ///< their variants had no more turns, and cannot be measured again
  int64_t rounds = 0;                  ///< that were started
  double wall_ms = 0;                  ///< all of it, as the caller waits
};

/// One caller at a time. A worker that dies is replaced and gets the variants again that are asked for; the caller sees
/// a fault of one variant and step. Start it on a thread that lives as long: on Linux a worker can be bound to the life
/// of the thread that started it (done where that is the main thread; else it follows the life of the process).
class Runner {
 public:
  /// No worker is started yet. Throws usage for options that are not legal.
  explicit Runner(RunnerOptions options);
  ~Runner();
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  /// The first variant that loads without a fault is trusted: its values are the right ones. `values`: of the steps, as
  /// many as are known; steps without are not compared themselves, but what others compute from them is. Throws
  /// internal for a plan that breaks an invariant, io when no worker can be started.
  Loaded load(const Plan& plan, std::span<const StepValue> values, const LoadOptions& options = {});
  /// Throws usage for an id that is not loaded.
  Laps measure(std::span<const VariantId> ids, const MeasureOptions& options = {});
  /// Throws usage for the trusted variant, which every check needs.
  void drop(VariantId id);

  /// Constants of all variants. Plans whose constants lie in it load without being read.
  ConstantStore& store();
  /// Workers that were replaced after a fault.
  int64_t restarts() const;
  /// Whether the system keeps the worker's code from starting programs, writing files and the like (confine_process());
  /// false before the first load.
  bool confined() const;
  /// Of all runs so far: how many others disturbed, and the milliseconds of the shortest; 0 before the first.
  const DisturbedCount& disturbed() const;
  double best_ms() const;
  /// Of the worker; nothing before the first load.
  std::optional<int> worker_pid() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// `name` beside the program at `self`, or in ../libexec/kilter beside it; throws io naming where it was looked for.
std::filesystem::path find_worker(const std::string& name, const std::filesystem::path& self = "/proc/self/exe");

}  // namespace kilter::tune
