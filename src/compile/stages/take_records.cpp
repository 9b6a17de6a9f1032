// Applies the schedules that records or an accepted plan offer for the tasks of the default plan.
#include "compile/stages/plan_state.h"

namespace kilter {

void take_records(PlanState& state) {
  if (state.settled || state.offer == nullptr || !state.offer->settle) return;
  state.settled = true;
  state.out.tasks = {std::shared_ptr<void>(), &state.tasks};  // lent for the call
  state.recorded = state.offer->settle(state.out, state.options);
  state.out.tasks = nullptr;
  Choices settled = state.choices;
  for (auto& [node, choice] : settled) {
    if (!choice.forced()) choice.schedule.reset();
  }
  add(state.recorded.choices, settled);
  std::erase_if(settled, [](const auto& entry) { return entry.second == LayerChoice(); });
  state.again = settled != state.choices;
  state.choices = std::move(settled);
  if (state.again) state.slim.clear(), state.given_up.clear(), state.wanted_bytes = 0;
}

}  // namespace kilter
