// Runs one network under changing schedules. Plans are built with caches of earlier builds, and measured in a worker
// process.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "compile/build_cache.h"
#include "compile/choices.h"
#include "compile/compile.h"
#include "tune/run/runner.h"
#include "tune/tuner/search/task_state.h"

namespace kilter::tune {

/// A plan of the network, with the steps that belong to each layer.
struct Variant {
  Choices choices;  ///< differences from the default
  Compiled compiled;
  std::map<std::string, std::vector<size_t>> steps;  ///< by anchor, kernels only
};

/// The CPUs that measure and those that may compile at the same time. The latter belong to other cores if there are
/// enough; otherwise they are the same CPUs.
struct CpuShares {
  std::vector<int> measuring, building;
  bool apart = false;
};
/// Assigns the last CPUs of `all` to the measurement, since interrupts prefer the first ones. Each is on its own core
/// if there are enough cores. `cores` names the core of each CPU in `all`, in any numbering; empty: each CPU is a core.
CpuShares share_cpus(const std::vector<int>& all, int threads, const std::vector<int>& cores = {});
/// Divides the CPUs that this process may use.
CpuShares cpus_for(int threads);

/// Throws unsupported with the faults of the default plan, which is needed for all comparisons.
[[noreturn]] void fail_default(std::span<const Fault> faults);

class NetworkBench {
 public:
  /// Chooses the CPUs of a runner on this machine.
  NetworkBench(Graph graph, const CompileOptions& compile, RunnerOptions runner);
  ~NetworkBench();
  NetworkBench(const NetworkBench&) = delete;
  NetworkBench& operator=(const NetworkBench&) = delete;

  /// Builds a plan. One thread at a time may call this, while another thread may call load() and measure(). Load the
  /// plan before building more than a few others. Throws usage for a schedule that its template rejects and for names
  /// that the graph does not have. Choices that change the result of the passes cost an additional run of the passes
  /// and an additional packing of the weights; kernels are shared in any case. Packed weights may have any size. Layers
  /// of the default plan that gave up a schedule for smaller weights keep the schedule with the smaller ones.
  std::shared_ptr<const Variant> build(const Choices& choices);
  /// Builds a plan and discards it. Throws what build() throws. Does not make the caches evict earlier builds sooner.
  void try_build(const Choices& choices);

  /// Returns the nodes that run reference kernels under `choices`. Generates no code. Throws what build() throws.
  std::vector<std::string> reference_nodes(const Choices& choices) const;

  /// The plan of the default schedules, loaded and trusted.
  const Variant& fallback() const { return *fallback_; }
  VariantId fallback_id() const { return fallback_id_; }
  /// Returns all tasks of a plan that have a layer whose schedule is not pinned, in the order of their numbers. The
  /// schedules that they run are their defaults.
  std::vector<NetworkTask> tasks(const Variant& of) const;
  std::vector<NetworkTask> tasks() const { return tasks(*fallback_); }
  const CompileOptions& options() const { return options_; }
  const std::vector<Tensor>& inputs() const { return inputs_; }
  int threads() const { return threads_; }
  const CpuShares& cpus() const { return cpus_; }

  Loaded load(const Variant& variant, const LoadOptions& options = {});
  std::vector<Loaded> load_all(std::span<const std::shared_ptr<const Variant>> variants);
  Runner& runner() { return *runner_; }

 private:
  class Sink;
  /// The result of the passes for some choices, with the cache that its builds share.
  struct Passed {
    Choices form;  ///< those that the passes depend on
    PassedGraph graph;
    std::unique_ptr<BuildCache> cache;
  };
  Passed& passed(const Choices& choices);

  Graph graph_;  ///< before the passes
  CompileOptions options_;
  std::vector<Tensor> inputs_;
  int threads_;
  CpuShares cpus_;
  std::unique_ptr<Runner> runner_;
  std::unique_ptr<Sink> sink_;
  std::shared_ptr<KernelStore> kernels_;
  std::deque<Passed> passed_;  ///< the default's first, then the most recent
  std::shared_ptr<const Variant> fallback_;
  VariantId fallback_id_ = 0;
};

}  // namespace kilter::tune
