// Measures candidates in place, in the network. A variant is a whole compiled network in which each layer carries some
// candidate. Variants run interleaved in a worker process, which times every step.
//
//   LocalRunner runner({.inputs = inputs, .threads = 1});
//   const VariantId best = *runner.load(plan, values).id;           // the first one is trusted to be correct
//   const Loaded next = runner.load(other_plan, other_values);      // checked against it, step by step
//   const Laps laps = runner.measure({best, *next.id}, {.rounds = 10});
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/tensor.h"
#include "exec/plan.h"
#include "measure/caches.h"
#include "measure/conditions.h"
#include "measure/quiet.h"
#include "tune/run/constant_store.h"
#include "tune/run/tap.h"
#include "tune/run/value.h"

namespace kilter::tune {

using VariantId = int64_t;

enum class FaultKind : uint8_t {
  crash,    ///< the worker died in the step, or its kernel reported a failure
  timeout,  ///< it was killed because the step did not end
  wrong,    ///< values, or the memory around buffers, are not as expected
  memory,   ///< it needs more memory than allowed
};
/// "crash", "timeout", "wrong", "memory".
std::string_view name(FaultKind kind);

struct Fault {
  VariantId variant = 0;
  FaultKind kind = FaultKind::crash;
  int64_t step = -1;  ///< of the variant's plan; -1: no particular step
  std::string layer;  ///< Step::name
  std::string words;  ///< "signal 11 (Segmentation fault) at step 17 'layer1.0.conv1' while checking: ..."
};

class Runner;

/// The machine that runners measure on.
struct RunnerMachine {
  Conditions conditions;  ///< the result of current_conditions() there
  CacheSizes caches;
};

struct RunnerOptions {
  std::vector<Tensor> inputs = {};  ///< for all variants, in the order of Plan::inputs
  int threads = 1;
  std::vector<int> cpus = {};  ///< CPUs that the worker may run on; empty: those of this process
  double timeout_ms = 1000;    ///< a step is killed only after this time has passed
  double timeout_factor = 20;  ///< a step is killed only after this multiple of a whole trusted run's time
  int64_t memory_bytes = 0;  ///< memory for the worker beyond the constants; 0: half of the memory this process may use
  std::filesystem::path worker = {};  ///< program; empty: kilter-worker, found by find_worker()
  /// Creates a runner on another machine, for which `cpus`, `memory_bytes` and `worker` have no meaning; empty: on this
  /// one.
  std::function<std::unique_ptr<Runner>(RunnerOptions)> make = {};
  std::optional<RunnerMachine> machine = {};  ///< on which the runners of `make` measure; empty: this one
};

struct LoadOptions {
  /// Whether to check against the trusted variant. Set it to false if all steps of the variant were checked in others.
  bool check = true;
  bool find_all = true;  ///< after a crash or timeout, continues with the other layers to find all faults
};

/// A plan with the known values of its steps.
struct Loadable {
  const Plan* plan = nullptr;
  std::vector<StepValue> values;
};

struct Loaded {
  /// Set if the variant can be measured, even if some of its steps are wrong. The times of wrong steps mean little;
  /// those of the other steps are reliable.
  std::optional<VariantId> id;
  std::vector<Fault> faults;
  std::vector<double> step_ms;  ///< from the check's single run, with everything cold; empty without a check
};

enum class WarmUp : uint8_t {
  as_needed,  ///< an uncounted run before each turn, unless the network is larger than the caches
  always,
  never,
};

struct MeasureOptions {
  int64_t rounds = 1;   ///< in each round every variant has two turns: in random order, then in reverse order
  double max_ms = 1e9;  ///< no round begins later, except the first
  /// A variant whose fastest run takes this many times as long as the fastest of all gets no more turns; 0: no limit.
  double cut_off = 0;
  double slice_ms = 2;  ///< a turn has as many runs as it needs to last this long
  int64_t runs = 1;     ///< minimum number of runs in a turn
  WarmUp warm_up = WarmUp::as_needed;
  uint64_t seed = 1;  ///< for the order of turns
  /// Bytes of times that the worker collects before it delivers them and continues.
  int64_t log_bytes = int64_t{256} << 20;
};

/// One run of one variant.
struct Lap {
  int64_t round = 0;
  int64_t order = 0;            ///< among all laps of the measurement
  double total_ms = 0;          ///< of the run
  std::vector<double> step_ms;  ///< from fork to join
  std::vector<double> gap_ms;   ///< before each step
  /// At each step: the time that the core took for independent instructions, relative to its usual time in this
  /// measurement. At kShared or above, another hardware thread was working on the core.
  std::vector<double> width;
  /// Whether its turn lost more time than usual for this measurement, either stolen by the hypervisor or spent by a
  /// thread that waited for a CPU.
  bool held_up = false;
  Disturbance disturbance;  ///< in the turn that the run belongs to
};

constexpr double kShared = 1.15;

/// Bytes of values that any runner returns from one run. A reply of an agent with this many bytes fits into a message.
constexpr int64_t kTracedAtOnce = int64_t{48} << 20;

/// The values of a run.
struct Traced {
  std::vector<std::vector<std::byte>> values;  ///< by tap; empty after a fault
  std::optional<Fault> fault;                  ///< the variant cannot be run again, unless it is the trusted one
};

struct Laps {
  std::vector<VariantId> ids;
  std::vector<std::vector<Lap>> laps;  ///< by variant, in order
  std::vector<bool> cut;               ///< by variant: it got no more turns because it was too slow
  std::vector<Fault> faults;           ///< their variants got no more turns and cannot be measured again
  int64_t rounds = 0;                  ///< rounds that were started
  double wall_ms = 0;                  ///< total time for the caller
};

/// Where variants run: on this machine, or on another one (fleet/remote_runner.h). Only one thread at a time may use a
/// runner.
class Runner {
 public:
  virtual ~Runner() = default;
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  /// Loads a variant. The first one that loads without a fault is trusted: its values are taken as correct. `values`:
  /// the known values of the steps. Steps without values are not compared, but known values computed from their results
  /// are. Throws internal for a plan that breaks an invariant, and io if no worker can be started.
  virtual Loaded load(const Plan& plan, std::span<const StepValue> values, const LoadOptions& options) = 0;
  Loaded load(const Plan& plan, std::span<const StepValue> values) { return load(plan, values, LoadOptions()); }
  /// Loads several variants with the default options, in one message if they are on another machine.
  virtual std::vector<Loaded> load_all(std::span<const Loadable> variants);
  /// Throws usage for an id that is not loaded.
  virtual Laps measure(std::span<const VariantId> ids, const MeasureOptions& options) = 0;
  Laps measure(std::span<const VariantId> ids) { return measure(ids, MeasureOptions()); }
  /// Runs a variant and returns the values of the taps. Values of more than kTracedAtOnce bytes may come from several
  /// runs; they are consistent unless the network draws random numbers. Nothing is compared. Throws usage for an id
  /// that is not loaded, internal for taps outside the plan, and unsupported for more bytes than there is room for.
  virtual Traced trace(VariantId id, std::span<const Tap> taps) = 0;
  /// Throws usage for the trusted variant, since every check needs it.
  virtual void drop(VariantId id) = 0;

  /// The store with the constants of all variants. Loading a plan whose constants are in it does not read them.
  virtual ConstantStore& store() = 0;
  /// Number of workers that were replaced after a fault.
  virtual int64_t restarts() const = 0;
  /// Whether the system prevents the worker's code from starting programs, writing files and similar actions
  /// (confine_process()). False before the first load.
  virtual bool confined() const = 0;

  /// Whether loading is faster with Plan::recipes.
  virtual bool wants_recipes() const { return false; }

  /// The number of disturbed runs so far, and the kinds of disturbances.
  const DisturbedCount& disturbed() const { return disturbed_; }
  /// The duration of the shortest run so far, in milliseconds; 0 before the first run.
  double best_ms() const { return best_ms_; }

 protected:
  Runner() = default;
  void count(const Laps& laps);

 private:
  DisturbedCount disturbed_;
  double best_ms_ = 0;
};

/// Runs variants in a worker process on this machine. A worker that dies is replaced, and the new one receives the
/// requested variants again; the caller sees only a fault of one variant and step. Create the runner on a thread that
/// lives as long as the runner does. A worker started by the main thread ends with that thread, and any other worker
/// with the process.
class LocalRunner : public Runner {
 public:
  /// Does not start a worker yet. Throws usage for options that are not legal.
  explicit LocalRunner(RunnerOptions options);
  ~LocalRunner() override;

  using Runner::load;
  using Runner::measure;
  Loaded load(const Plan& plan, std::span<const StepValue> values, const LoadOptions& options) override;
  Laps measure(std::span<const VariantId> ids, const MeasureOptions& options) override;
  Traced trace(VariantId id, std::span<const Tap> taps) override;
  void drop(VariantId id) override;
  ConstantStore& store() override;
  int64_t restarts() const override;
  bool confined() const override;
  /// Process id of the worker; empty before the first load.
  std::optional<int> worker_pid() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Returns the runner that the options ask for.
std::unique_ptr<Runner> make_runner(RunnerOptions options);

/// Makes find_worker() return this program, for processes that are not `kilter`. Call it before any runner starts.
void set_worker(std::filesystem::path program);

/// Finds `name` next to the program at `self`, or in ../libexec/kilter relative to it. Throws io naming the places
/// searched.
std::filesystem::path find_worker(const std::string& name, const std::filesystem::path& self = "/proc/self/exe");

}  // namespace kilter::tune
