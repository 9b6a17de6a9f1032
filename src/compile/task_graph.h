// The task graph: the tasks that a plan runs, with their schedules and the places of their operands. The stages after
// the graph passes build it (compile/stages/), and steps are created from it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compile/storage.h"
#include "compile/tasks.h"
#include "graph/graph.h"
#include "schedule/schedule.h"

namespace kilter {

/// A task of the graph.
struct TaskEntry {
  enum Kind : uint8_t {
    view,       ///< does nothing at run time
    kernel,     ///< runs kernels that its schedule's template generates
    reference,  ///< runs its operator's reference kernel
  } kind = view;
  Unit unit;
  Schedule schedule = {};  ///< "reference" for a reference kernel; without a name for a view
};

struct TaskGraph {
  Graph graph;         ///< fused, with the copies that placing added
  StorageMap storage;  ///< where every value is stored
  std::vector<TaskEntry> tasks;
  bool open = false;  ///< Task::open of all tasks

  /// The task as templates see it. Refers to `graph`.
  Task task(const TaskEntry& entry) const {
    Task task = make_task(graph, entry.unit, &storage);
    task.open = open;
    return task;
  }
};

/// One line per task: number, kind, anchor, operators, schedule, operands with their layouts and places.
std::string print(const TaskGraph& tasks);
/// Throws internal with the first broken rule: every live node is in one task, tasks come after those that compute
/// their operands, a value lies inside the buffer of its root, and a kernel has a schedule.
void verify(const TaskGraph& tasks);

}  // namespace kilter
