// A network under changing schedules: plans are built with what earlier ones left in caches, and measured in a worker
// process.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "compile/build_cache.h"
#include "compile/compile.h"
#include "tune/run/runner.h"
#include "tune/tuner/plans/layer_choice.h"
#include "tune/tuner/search/task_state.h"

namespace kilter::tune {

/// A plan of the network, and which steps belong to which layer.
struct Variant {
  Choices choices;  ///< what differs from the default
  Compiled compiled;
  std::map<std::string, std::vector<size_t>> steps;  ///< by anchor, kernels only
};

/// Which CPUs measure and which may compile meanwhile: those of other cores, where there are enough, else the same
/// ones.
struct CpuShares {
  std::vector<int> measuring, building;
  bool apart = false;
};
/// The measurement has the last CPUs of `all`, as interrupts prefer the first ones, each of a core of its own where
/// there are as many. `cores`: of each of `all`, by any names; empty: each is a core.
CpuShares share_cpus(const std::vector<int>& all, int threads, const std::vector<int>& cores = {});
/// Of the CPUs that this process may use.
CpuShares cpus_for(int threads);

/// Throws unsupported: without the default plan nothing can be compared.
[[noreturn]] void fail_default(std::span<const Fault> faults);

class NetworkBench {
 public:
  /// The runner's CPUs are chosen here.
  NetworkBench(Graph graph, const CompileOptions& compile, RunnerOptions runner);
  ~NetworkBench();
  NetworkBench(const NetworkBench&) = delete;
  NetworkBench& operator=(const NetworkBench&) = delete;

  /// Builds a plan; one caller at a time, beside load() and measure() of another thread. Load it before a few more are
  /// built. Throws usage for a schedule that its template refuses, and for names that the graph does not have. Choices
  /// that change what the passes make cost a run of these, and packing weights anew; kernels are shared all the same.
  /// Packed weights may take any size, and what layers of the default plan gave up for smaller ones stays given up.
  std::shared_ptr<const Variant> build(const Choices& choices);
  /// Throws what build() throws, and makes nothing that is built older.
  void try_build(const Choices& choices);

  /// Nodes that run their reference kernels under `choices`; no code is generated. Throws as build() does.
  std::vector<std::string> reference_nodes(const Choices& choices) const;

  /// The plan of the default schedules; loaded and trusted.
  const Variant& fallback() const { return *fallback_; }
  VariantId fallback_id() const { return fallback_id_; }
  /// All tasks of a plan with a layer whose schedule is not pinned, in the order of their numbers. The schedules that
  /// they run are their defaults.
  std::vector<NetworkTask> tasks(const Variant& of) const;
  std::vector<NetworkTask> tasks() const { return tasks(*fallback_); }
  const CompileOptions& options() const { return options_; }
  const std::vector<Tensor>& inputs() const { return inputs_; }
  int threads() const { return threads_; }
  const CpuShares& cpus() const { return cpus_; }

  Loaded load(const Variant& variant, const LoadOptions& options = {});
  Runner& runner() { return *runner_; }

 private:
  class Sink;
  /// What of the options changes what the passes make of the graph.
  struct Form {
    std::set<std::string> plain_layout, no_fuse, fuse, apart;
    bool operator==(const Form&) const = default;
  };
  /// What the passes make of the graph in a form, and what builds of it share.
  struct Passed {
    Form form;
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
  std::deque<Passed> passed_;  ///< the default's first, then the latest ones
  std::shared_ptr<const Variant> fallback_;
  VariantId fallback_id_ = 0;
};

}  // namespace kilter::tune
