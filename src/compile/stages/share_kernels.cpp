// Replaces kernels by ones that are shared with other shapes and read their numbers from memory.
#include "compile/stages/constant_pool.h"
#include "compile/stages/plan_state.h"

namespace kilter {

void share_kernels(PlanState& state) {
  KernelStore* store = state.kernel_store();
  if (store == nullptr) return;
  state.kernels.share(*store);
  std::vector<Step>& steps = state.out.plan.steps;
  for (size_t i = 0; i < steps.size(); ++i) {
    Step& step = steps[i];
    if (step.kind != StepKind::kernel) continue;
    const std::span<const int64_t> dims = state.kernels.dims(step.kernel);
    if (dims.empty()) continue;
    state.out.notes[i].shared = true;
    const auto bytes = static_cast<int64_t>(dims.size_bytes());
    step.args.push_back({Space::constant, 0, static_cast<int32_t>(state.constants.size()), bytes});
    state.constants.push_back({.task = nullptr, .numbers = {dims.begin(), dims.end()}});
    state.weight_bytes += stored_bytes(bytes);
  }
}

}  // namespace kilter
