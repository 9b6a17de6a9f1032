// Gives every value its place in memory, and lists the tasks.
#include "compile/check_options.h"
#include "compile/kernel_store.h"
#include "compile/stages/plan_state.h"

namespace kilter {

void place_values(PlanState& state) {
  TaskGraph& tasks = state.tasks;
  const KernelStore* store = state.kernel_store();
  tasks = {.graph = state.fused, .storage = {}, .tasks = {}, .open = store != nullptr && store->shares()};
  tasks.storage = place(tasks.graph, state.dense);
  verify(tasks.graph);
  for (Unit& unit : units(tasks.graph)) {
    const NodeId first = unit.nodes.front();
    const TaskEntry::Kind kind = tasks.storage.views.contains(first) ? TaskEntry::view
                                 : state.reference.contains(first)   ? TaskEntry::reference
                                                                     : TaskEntry::kernel;
    tasks.tasks.push_back({kind, std::move(unit), {}});
  }
  if (!state.names_checked) check_node_names(tasks.graph, state.options);  // placing adds tasks: copies to outputs
  state.names_checked = true;
}

}  // namespace kilter
