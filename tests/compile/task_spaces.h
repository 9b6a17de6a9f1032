// The schedules that the tasks of a graph may have, and random choices among them.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "compile/compile.h"
#include "draw.h"
#include "target/target.h"

namespace kilter {

/// One task of a graph after all passes.
struct TaskSpace {
  std::string node;
  std::string problem;
  Schedule schedule;  ///< the default
  std::vector<Knob> space;
};
/// The tasks to which a template applies, with the space of the default template.
std::vector<TaskSpace> tasks_of(Graph graph, const Target& target);

/// Draws depthwise convolutions that can run in one task with the convolution before them, for Fusion::before.
std::set<std::string> draw_fused(const Graph& graph, const CompileOptions& options, Draw& draw);

/// Draws for each task a legal schedule of a random template that applies to it. The passes run with `options`.
/// Operands are assumed to be dense, so compiling may still refuse a schedule.
std::map<std::string, Schedule> draw_schedules(Graph graph, const CompileOptions& options, Draw& draw);

}  // namespace kilter
