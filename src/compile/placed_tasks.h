// The tasks of a graph as compile_graph() passes them to templates, before any is lowered, for examining schedule
// spaces.
#pragma once

#include <memory>
#include <vector>

#include "compile/storage.h"
#include "graph/graph.h"
#include "schedule/problem/problem.h"
#include "schedule/problem/task.h"
#include "target/target.h"

namespace kilter {

struct CompileOptions;

/// Sets the options with which a problem's network is compiled to the problem's task.
void apply(const Problem& problem, CompileOptions& options);

struct PlacedTasks {
  std::unique_ptr<const Graph> graph;  ///< after all passes, with the copies that placing added; tasks point into it
  std::vector<Task> tasks;             ///< in the order of their steps, without those that become views
};

/// Runs all passes and places the values. Operands have the layouts and strides of the compiled plan, but nodes that no
/// template accepts keep the layouts from the passes.
PlacedTasks place_tasks(Graph model, const CpuLimits& limits);
/// The tasks of a problem's network, compiled so that the problem's own task is one of them.
PlacedTasks place_tasks(Problem problem, const CpuLimits& limits);

}  // namespace kilter
