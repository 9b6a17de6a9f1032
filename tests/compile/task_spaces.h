// The schedules that the tasks of a graph may have, and random ones of them.
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
/// Tasks that a template takes, with the default's space.
std::vector<TaskSpace> tasks_of(Graph graph, const Target& target);

/// Random depthwise convolutions that can run in one task with the convolution before them, for CompileOptions::fuse.
std::set<std::string> draw_fused(const Graph& graph, const CompileOptions& options, Draw& draw);

/// For each task a random legal schedule of a random template of those that take it. `options` gives the target and
/// what the passes see; operands are taken as dense, so that the plan may still refuse one.
std::map<std::string, Schedule> draw_schedules(Graph graph, const CompileOptions& options, Draw& draw);

}  // namespace kilter
