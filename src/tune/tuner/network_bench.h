// A network under changing schedules: plans are built with what earlier ones left in caches, and measured in a worker
// process.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "compile/build_cache.h"
#include "compile/compile.h"
#include "tune/run/runner.h"
#include "tune/tuner/task_state.h"

namespace kilter::tune {

/// By node: the schedule of a task, named by its anchor.
using Choices = std::map<std::string, Schedule>;

/// A plan of the network, and which steps belong to which layer.
struct Variant {
  Choices choices;  ///< what differs from the default
  Compiled compiled;
  std::map<std::string, std::vector<size_t>> steps;  ///< by anchor, kernels only
};

class NetworkBench {
 public:
  NetworkBench(Graph graph, const CompileOptions& compile, RunnerOptions runner);
  ~NetworkBench();
  NetworkBench(const NetworkBench&) = delete;
  NetworkBench& operator=(const NetworkBench&) = delete;

  /// Builds a plan; one caller at a time, beside load() and measure() of another thread. Throws usage for a schedule
  /// that its template refuses.
  std::shared_ptr<const Variant> build(const Choices& choices);

  /// The plan of the default schedules; loaded and trusted.
  const Variant& fallback() const { return *fallback_; }
  VariantId fallback_id() const { return fallback_id_; }
  /// All of its tasks, in the order of their first steps.
  std::vector<NetworkTask> tasks() const;

  Loaded load(const Variant& variant, const LoadOptions& options = {});
  Runner& runner() { return *runner_; }

 private:
  class Sink;
  CompileOptions options_;
  PassedGraph passed_;
  std::unique_ptr<Runner> runner_;
  std::unique_ptr<Sink> sink_;
  std::unique_ptr<BuildCache> cache_;
  std::shared_ptr<const Variant> fallback_;
  VariantId fallback_id_ = 0;
};

/// Milliseconds of a layer in one lap: its steps with the gaps before them.
double layer_ms(const Lap& lap, const std::vector<size_t>& steps);

}  // namespace kilter::tune
