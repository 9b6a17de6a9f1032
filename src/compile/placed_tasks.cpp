#include "compile/placed_tasks.h"

#include <utility>

#include "compile/compile.h"
#include "compile/tasks.h"

namespace kilter {

PlacedTasks place_tasks(Graph model, const CpuLimits& limits, const std::set<std::string>& fuse) {
  CompileOptions options;
  options.target.limits = limits;
  for (const std::string& node : fuse) options.choices[node].fuse = Fusion::before;
  Graph graph = run_passes(std::move(model), options).graph;
  const StorageMap storage = place(graph, {});
  verify(graph);
  PlacedTasks out;
  out.graph = std::make_unique<const Graph>(std::move(graph));
  out.tasks = tasks_of(*out.graph, storage);
  return out;
}

}  // namespace kilter
