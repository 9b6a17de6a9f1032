// The tunable parts of a network: its tasks with their spaces, and what becomes of every node.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compile/compile.h"

namespace kilter::tune {

/// What becomes of one node.
struct NodeLine {
  std::string node, op;
  int64_t task = -1;    ///< the task that it is part of; 0: a task without a number; -1: none
  std::string problem;  ///< of that task; empty if there is none
  std::string becomes;  ///< "task 3", "fused into task 3", "free view", "no space: ...", "gone: ..."
};

/// Layers that share one problem and one form of operands.
struct TaskLine {
  int64_t task = 0;                        ///< 0: a task that exists only because of records, so it has no number
  std::string problem, layouts, schedule;  ///< `schedule`: the one it runs
  std::string record = {};                 ///< Step::record of its first layer: the source of the schedule
  std::vector<std::string> nodes;          ///< anchors of its layers
  int64_t flops = 0, bytes = 0;            ///< of one layer
  double cycles = 0;                       ///< by the analytic model, for one core and one layer; 0: there is no model
  double best_cycles = 0;                  ///< of the best schedule by the same model
  double share = 0;                        ///< of the cycles of all listed layers
  uint64_t points = 0;                     ///< size of the space
  int64_t worth = 0;                       ///< points worth a trial
  std::string space;                       ///< how the other points were ruled out
};

struct TaskList {
  std::vector<TaskLine> tasks;  ///< in the order of their first layers
  std::vector<NodeLine> nodes;  ///< the nodes of the graph before the passes, in order, then those created by passes
  int64_t anchors = 0;          ///< number of distinct problems, not counting nodes fused into them
};

/// The anchors of each task's layers, for a plan compiled with CompileContents::tasks. The first task is number 1.
/// All commands number tasks this way, in the network as compiled without records. Layers of one task share their
/// problem, their form of operands, their default schedule and the schedules `forbidden` for them.
using NumberedTasks = std::vector<std::vector<std::string>>;
NumberedTasks numbered_tasks(const Compiled& compiled, std::span<const Forbidden> forbidden);

/// Lists the tasks and nodes. `original`: the graph before the passes. `compiled`: its compilation with
/// CompileContents::tasks. `kinds`: first words of problems ("conv2d") whose tasks are listed; empty: all.
/// `numbers`: the tasks of the network without records, needed if `compiled` uses schedules from records. A task whose
/// layers run different schedules then has a line for each.
TaskList list_tasks(const Graph& original, const Compiled& compiled, const CompileOptions& options,
                    const std::vector<std::string>& kinds = {}, const std::optional<NumberedTasks>& numbers = {});

}  // namespace kilter::tune
