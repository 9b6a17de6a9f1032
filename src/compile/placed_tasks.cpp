#include "compile/placed_tasks.h"

#include <utility>

#include "compile/compile.h"
#include "compile/tasks.h"

namespace kilter {

PlacedTasks place_tasks(Graph graph, const TargetLimits& limits, const std::set<std::string>& fuse) {
  PassContext context;
  context.limits = limits;
  for (const std::string& node : fuse) context.fuse[node] = "--fuse " + node;
  for (const PassRow& row : all_passes()) row.function(graph, context);
  const StorageMap storage = place(graph, {});
  verify(graph);
  PlacedTasks out;
  out.graph = std::make_unique<const Graph>(std::move(graph));
  out.tasks = tasks_of(*out.graph, storage);
  return out;
}

}  // namespace kilter
