// A small network, its inputs and a worker for tests of the tuner.
#pragma once

#include "compile/session.h"
#include "tune/tuner/network_bench.h"
#include "zoo/zoo.h"

namespace kilter::tune {

inline Graph small_network() { return zoo::build("squeezenet1_1", {.size = 64, .classes = 10}); }

inline std::vector<Tensor> inputs_of(const Graph& graph) {
  std::vector<Tensor> out;
  for (const ValueId v : graph.inputs())
    out.push_back(random_input(graph.value(v).name, graph.type(v).dtype, graph.type(v).shape));
  return out;
}

inline CompileOptions native() {
  CompileOptions options;
  options.target = parse_target("native");
  return options;
}

inline RunnerOptions worker() {
  RunnerOptions options;
  options.worker = KILTER_WORKER;
  options.timeout_ms = 5000;
  return options;
}

/// Builds a bench that runs the graph on generated inputs.
inline NetworkBench bench_of(const Graph& graph, const CompileOptions& compile = native(), int threads = 1) {
  RunnerOptions runner = worker();
  runner.inputs = inputs_of(graph), runner.threads = threads;
  return {graph, compile, std::move(runner)};
}

}  // namespace kilter::tune
