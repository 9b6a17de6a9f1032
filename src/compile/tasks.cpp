#include "compile/tasks.h"

#include <algorithm>
#include <map>
#include <set>

namespace kilter {

std::vector<Unit> units(const Graph& graph) {
  std::vector<Unit> all;
  std::map<int32_t, size_t> by_group;
  std::map<NodeId, size_t> unit_of;
  for (NodeId id : graph.order()) {
    const int32_t group = graph.node(id).group;
    size_t index = all.size();
    if (group != kNone) index = by_group.emplace(group, index).first->second;
    if (index == all.size()) all.emplace_back();
    all[index].nodes.push_back(id);
    unit_of[id] = index;
  }
  // Depth first over producers: a unit comes after everything it needs, and as late as its first user allows.
  std::vector<Unit> sorted;
  std::vector<uint8_t> state(all.size(), 0);
  std::vector<std::pair<size_t, bool>> stack;
  for (size_t start = 0; start < all.size(); ++start) {
    stack.emplace_back(start, false);
    while (!stack.empty()) {
      const auto [u, done] = stack.back();
      stack.pop_back();
      if (done) {
        state[u] = 2;
        sorted.push_back(all[u]);
        continue;
      }
      if (state[u] != 0) {
        require(state[u] == 2, "fused groups depend on each other in a cycle at node '{}'",
                graph.node(all[u].nodes[0]).name);
        continue;
      }
      state[u] = 1;
      stack.emplace_back(u, true);
      for (NodeId id : all[u].nodes) {
        for (ValueId in : graph.node(id).inputs) {
          if (in == kNone || graph.value(in).producer == kNone) continue;
          const size_t needs = unit_of.at(graph.value(in).producer);
          if (needs != u && state[needs] == 0) stack.emplace_back(needs, false);
          require(needs == u || state[needs] != 1, "fused groups depend on each other in a cycle at node '{}'",
                  graph.node(id).name);
        }
      }
    }
  }
  return sorted;
}

namespace {

Operand operand(const Graph& graph, ValueId id, const StorageMap* storage) {
  const Value& value = graph.value(id);
  Operand out;
  out.value = id;
  out.type = value.type;
  out.phys = storage != nullptr && !value.constant ? storage->of(id).phys : physical(value.type);
  out.constant = value.constant ? &*value.constant : nullptr;
  return out;
}

}  // namespace

Task make_task(const Graph& graph, const Unit& unit, const StorageMap* storage) {
  Task task;
  task.graph = &graph;
  task.anchor = unit.nodes.front();
  const int32_t group = graph.node(unit.nodes.front()).group;
  if (group != kNone) task.anchor = group;
  // The nodes before the anchor are either element-wise (the prologue), or a convolution and its element-wise nodes
  // (the feeder).
  std::vector<NodeId>* part = graph.node(unit.nodes.front()).op->family == Family::conv ? &task.feeder : &task.prologue;
  std::set<ValueId> made;
  for (NodeId id : unit.nodes) {
    if (id == task.anchor) {
      part = &task.epilogue;
    } else {
      part->push_back(id);
    }
    for (ValueId v : graph.node(id).outputs) {
      if (v != kNone) made.insert(v);
    }
  }
  std::set<ValueId> seen;
  for (NodeId id : unit.nodes) {
    for (ValueId v : graph.node(id).inputs) {
      if (v != kNone && !made.contains(v) && seen.insert(v).second) task.inputs.push_back(operand(graph, v, storage));
    }
  }
  const std::set<NodeId> inside(unit.nodes.begin(), unit.nodes.end());
  for (NodeId id : unit.nodes) {
    for (ValueId v : graph.node(id).outputs) {
      if (v == kNone) continue;
      const auto users = graph.users(v);
      const bool outside = std::any_of(users.begin(), users.end(), [&](NodeId u) { return !inside.contains(u); });
      if (outside || graph.is_output(v) || unit.nodes.size() == 1) task.outputs.push_back(operand(graph, v, storage));
    }
  }
  return task;
}

std::vector<Task> tasks_of(const Graph& graph, const StorageMap& storage) {
  std::vector<Task> out;
  for (const Unit& unit : units(graph)) {
    if (!storage.views.contains(unit.nodes.front())) out.push_back(make_task(graph, unit, &storage));
  }
  return out;
}

}  // namespace kilter
