// Turns groups of nodes into tasks, in an order that respects their dependencies.
#pragma once

#include <optional>
#include <vector>

#include "compile/storage.h"
#include "graph/graph.h"
#include "schedule/problem/task.h"

namespace kilter {

struct Unit {
  std::vector<NodeId> nodes;  ///< the nodes of one group in order, or one node without a group
};

/// Groups and single nodes, every producer before its users.
std::vector<Unit> units(const Graph& graph);

/// The task of a unit. Operands take their strides from `storage`; if it is null, they are dense.
Task make_task(const Graph& graph, const Unit& unit, const StorageMap* storage);

/// The tasks of all units that are not views, in the order of units(). They refer to the graph.
std::vector<Task> tasks_of(const Graph& graph, const StorageMap& storage);

}  // namespace kilter
