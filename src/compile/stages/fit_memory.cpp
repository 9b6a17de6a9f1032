// Trades the speed of tasks for smaller packed weights if the network's weights are too large.
#include <algorithm>

#include "compile/check_options.h"
#include "compile/stages/plan_state.h"

namespace kilter {
namespace {

/// The tasks that could run with smaller weights than they were lowered with.
std::vector<Tradable> tradables(const PlanState& state) {
  std::vector<Tradable> all;
  for (const TaskEntry& entry : state.tasks.tasks) {
    if (entry.kind != TaskEntry::kernel) continue;
    const Task task = state.tasks.task(entry);
    if (forced_schedule(state.choices, task.node().name) != nullptr) continue;
    auto found = tradable(task, entry.schedule, state.limits);
    if (!found) continue;
    std::erase_if(found->others,
                  [&](const Holding& other) { return !permits(state.options, task.node().name, other.schedule); });
    all.push_back(std::move(*found));
  }
  return all;
}

}  // namespace

void fit_memory(PlanState& state) {
  state.wanted_bytes = std::max(state.wanted_bytes, state.weight_bytes);
  state.allowed_bytes = state.weight_limit();
  state.out.weight_bytes = state.weight_bytes, state.out.weight_limit = state.allowed_bytes;
  if (!state.options.budget.limit_weights || state.weight_bytes <= state.allowed_bytes) return;
  const std::vector<Tradable> tasks = tradables(state);
  const Trade done = trade(tasks, state.weight_bytes - state.allowed_bytes);
  for (const Tradable& t : tasks) {
    const auto it = done.schedules.find(t.node);
    if (it == done.schedules.end()) continue;
    state.slim[t.node] = it->second;
    state.given_up.emplace(t.node, t.now);
  }
  state.again = !done.schedules.empty();
}

}  // namespace kilter
