#include "compile/placed_tasks.h"

#include <utility>

#include "compile/compile.h"
#include "compile/tasks.h"

namespace kilter {
namespace {

PlacedTasks placed_tasks(Graph model, const CompileOptions& options) {
  Graph graph = run_passes(std::move(model), options).graph;
  const StorageMap storage = place(graph, {});
  verify(graph);
  PlacedTasks out;
  out.graph = std::make_unique<const Graph>(std::move(graph));
  out.tasks = tasks_of(*out.graph, storage);
  return out;
}

}  // namespace

void apply(const Problem& problem, CompileOptions& options) {
  options.stored_ports = problem.stored;
  for (const auto& [port, layout] : problem.stored) {
    if (layout.stored != DType::u8) options.precision = precision_of(*layout.stored);
  }
  if (problem.fed) options.choices[problem.anchor].fuse = Fusion::before;
}

PlacedTasks place_tasks(Graph model, const CpuLimits& limits) {
  CompileOptions options;
  options.target.limits = limits;
  return placed_tasks(std::move(model), options);
}

PlacedTasks place_tasks(Problem problem, const CpuLimits& limits) {
  CompileOptions options;
  options.target.limits = limits;
  apply(problem, options);
  return placed_tasks(std::move(problem.graph), options);
}

}  // namespace kilter
