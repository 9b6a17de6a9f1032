// What of a network can be tuned: its tasks with their spaces, and what becomes of every node.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compile/compile.h"

namespace kilter::tune {

/// What becomes of a node.
struct NodeLine {
  std::string node, op;
  int64_t task = -1;    ///< that it is part of; 0: one without a number; -1: none
  std::string problem;  ///< of that task; empty without one
  std::string becomes;  ///< "task 3", "fused into task 3", "free view", "no space: ...", "gone: ..."
};

/// Layers of one problem with operands of one form.
struct TaskLine {
  int64_t task = 0;                        ///< 0: what records choose makes it, and it has no number
  std::string problem, layouts, schedule;  ///< that it runs
  std::string record = {};                 ///< Step::record of its first layer: what the schedule comes from
  std::vector<std::string> nodes;          ///< anchors of its layers
  int64_t flops = 0, bytes = 0;            ///< of one layer
  double cycles = 0;                       ///< of one core and one layer, by the analytic model; 0: it has none
  double best_cycles = 0;                  ///< of the best schedule by the same model
  double share = 0;                        ///< of the cycles of all layers that are listed
  uint64_t points = 0;                     ///< of the space
  int64_t worth = 0;                       ///< of them worth a trial
  std::string space;                       ///< how the others were ruled out
};

struct TaskList {
  std::vector<TaskLine> tasks;  ///< in the order of their first layers
  std::vector<NodeLine> nodes;  ///< every node of the graph before the passes, in order, then those that passes made
  int64_t anchors = 0;          ///< different problems without what is fused into them
};

/// Of a plan compiled with CompileOptions::keep_placed: the anchors of each task's layers. Task 1 is the first, and all
/// commands number tasks so, by the network as it is without records. Layers of one task have one problem, form of
/// operands and default schedule, and the same is `forbidden` of them.
using NumberedTasks = std::vector<std::vector<std::string>>;
NumberedTasks numbered_tasks(const Compiled& compiled, std::span<const Forbidden> forbidden);

/// `original`: the graph before the passes. `compiled`: of it, with CompileOptions::keep_placed. `kinds`: first words
/// of problems ("conv2d") whose tasks are listed; empty: all. `numbers`: of the network without records where
/// `compiled` runs what records say; a task whose layers run different things has a line for each of these then.
TaskList list_tasks(const Graph& original, const Compiled& compiled, const CompileOptions& options,
                    const std::vector<std::string>& kinds = {}, const std::optional<NumberedTasks>& numbers = {});

}  // namespace kilter::tune
