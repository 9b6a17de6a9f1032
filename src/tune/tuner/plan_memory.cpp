#include "tune/tuner/plan_memory.h"

#include <algorithm>
#include <set>

#include "compile/stages/constant_pool.h"
#include "compile/tasks.h"

namespace kilter::tune {
PlanMemory plan_memory(const Compiled& compiled, int threads) {
  const Plan& plan = compiled.plan;
  // Plans that are built for measurements share one block of constants, so the block's size is not the plan's.
  return {compiled.weight_bytes, plan.arena_bytes, plan.scratch_bytes * threads, plan.code_bytes};
}

double bytes_ratio(const PlanMemory& base, const PlanMemory& other) {
  return static_cast<double>(other.bytes()) / static_cast<double>(std::max<int64_t>(1, base.bytes()));
}

LayerMemory::LayerMemory(const Compiled& compiled, const CpuLimits& limits, int threads)
    : plan_(compiled.plan), limits_(limits), threads_(threads) {
  std::map<std::string, Task> tasks;
  for (Task& task : tasks_of(compiled.tasks->graph, compiled.tasks->storage))
    tasks.emplace(task.node().name, std::move(task));
  for (size_t s = 0; s < plan_.steps.size(); ++s) {
    const Step& step = plan_.steps[s];
    const auto task = tasks.find(step.name);
    if (step.kind != StepKind::kernel || task == tasks.end()) continue;
    const auto at = static_cast<int64_t>(s);
    const auto [layer, fresh] = layers_.try_emplace(step.name, Layer{task->second, {}, at, at});
    layer->second.last = at;
    if (fresh) layer->second.needs = needs_of(task->second, parse_schedule(step.schedule)).value_or(Needs{});
  }
}

std::optional<LayerMemory::Needs> LayerMemory::needs_of(const Task& task, const Schedule& schedule) const {
  const Template* from = find_template(schedule.name);
  if (from == nullptr) return std::nullopt;
  const Result<Lowered> lowered = from->lower(task, schedule, limits_);
  if (!lowered) return std::nullopt;
  Needs out;
  for (const Packing& packing : lowered->constants) out.weights += stored_bytes(packing.bytes());
  std::set<ValueId> values;  // constants that kernels read as they are
  for (const Stage& stage : lowered->stages) {
    out.scratch = std::max(out.scratch, stage.func.scratch_bytes());
    for (const StageArg& arg : stage.args) {
      if (arg.kind == StageArg::value) values.insert(arg.index);
    }
  }
  for (const Operand& operand : task.inputs) {
    if (operand.constant != nullptr && values.contains(operand.value))
      out.weights += stored_bytes(operand.constant->bytes());
  }
  out.temps = lowered->temp_bytes;
  return out;
}

int64_t LayerMemory::arena_with(const std::vector<std::string>& nodes, const std::vector<int64_t>& temps) const {
  std::set<std::string> replaced;
  std::vector<Lifetime> buffers;
  for (const std::string& node : nodes) {
    replaced.insert(temporary_of(node));
    const Layer& layer = layers_.at(node);
    for (const int64_t bytes : temps) buffers.push_back({bytes, layer.first, layer.last});
  }
  for (const ArenaSpan& span : plan_.arena) {
    if (!replaced.contains(span.name)) buffers.push_back({span.bytes, span.first_step, span.last_step});
  }
  return plan_arena(buffers).bytes;
}

int64_t LayerMemory::scratch_without(const std::vector<std::string>& nodes) const {
  int64_t most = 0;
  for (const auto& [node, layer] : layers_) {
    if (std::ranges::find(nodes, node) == nodes.end()) most = std::max(most, layer.needs.scratch);
  }
  return most;
}

int64_t LayerMemory::more(const std::vector<std::string>& nodes, const Schedule& schedule) const {
  const auto first = layers_.find(nodes.front());
  if (first == layers_.end()) return 0;
  const Needs& before = first->second.needs;
  const std::optional<Needs> after = needs_of(first->second.task, schedule);
  if (!after) return 0;
  int64_t more = std::ssize(nodes) * (after->weights - before.weights);
  if (after->temps != before.temps) more += arena_with(nodes, after->temps) - plan_.arena_bytes;
  const int64_t others = scratch_without(nodes);
  return more + threads_ * (std::max(others, after->scratch) - std::max(others, before.scratch));
}

}  // namespace kilter::tune
