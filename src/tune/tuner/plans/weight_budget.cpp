#include "tune/tuner/plans/weight_budget.h"

#include <algorithm>

namespace kilter::tune {

std::optional<size_t> first_to_go(std::span<const WeightClaim> claims, int64_t room) {
  int64_t all = 0;
  const WeightClaim* least = nullptr;
  const auto price = [](const WeightClaim& c) { return c.gain / static_cast<double>(c.bytes); };
  for (const WeightClaim& claim : claims) {
    all += claim.bytes;
    if (claim.bytes > 0 && (least == nullptr || price(claim) < price(*least))) least = &claim;
  }
  if (all <= room || least == nullptr) return std::nullopt;
  return least->id;
}

int64_t packed_bytes(const Task& task, const Schedule& schedule, const CpuLimits& limits) {
  return estimate_of(task, schedule, limits).value_or(Estimate{}).constant_bytes;
}

Choices slimmed_schedules(const Compiled& compiled) {
  Choices out;
  for (const Step& step : compiled.plan.steps) {
    if (std::ranges::find(compiled.slimmed, step.name) != compiled.slimmed.end() && step.kind == StepKind::kernel)
      out[step.name] = preferred(parse_schedule(step.schedule));
  }
  return out;
}

Choices with_slimmed(Choices choices, const Compiled& compiled) {
  if (choices.empty()) return choices;
  for (const auto& [node, choice] : slimmed_schedules(compiled)) choices.emplace(node, *choice.schedule);
  return choices;
}

}  // namespace kilter::tune
