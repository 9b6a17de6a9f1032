#include "compile/stages/memory_budget.h"

#include "base/error.h"

namespace kilter {
namespace {

/// Returns the replacement for a task's schedule that costs the fewest cycles per byte saved, or null if none saves any
/// bytes.
const Holding* cheapest(const Tradable& task, double& price) {
  const Holding* best = nullptr;
  for (const Holding& other : task.others) {
    if (other.bytes >= task.now.bytes) continue;
    const double asked = (other.cycles - task.now.cycles) / static_cast<double>(task.now.bytes - other.bytes);
    if (best == nullptr || asked < price) best = &other, price = asked;
  }
  return best;
}

}  // namespace

std::optional<Tradable> tradable(const Task& task, const Schedule& taken, const CpuLimits& limits) {
  const Template* own = find_template(taken.name);
  if (own == nullptr || own->approximates == nullptr) return std::nullopt;
  const auto now = estimate_of(task, taken, limits);
  if (!now) return std::nullopt;
  Tradable out{task.node().name, {}, {}};
  for (const Template* t : all_templates()) {
    for (Ranked& r : rank(*t, task, limits, SIZE_MAX)) {
      Holding holding{std::move(r.schedule), r.estimate.constant_bytes, r.estimate.cycles};
      if (!(holding.schedule == taken)) out.others.push_back(std::move(holding));
    }
  }
  out.now = {taken, now->constant_bytes, now->cycles};
  return out;
}

Trade trade(std::vector<Tradable> tasks, int64_t excess) {
  Trade out;
  while (out.saved < excess) {
    Tradable* seller = nullptr;
    const Holding* to = nullptr;
    double least = 0;
    for (Tradable& task : tasks) {
      double price = 0;
      const Holding* other = cheapest(task, price);
      if (other != nullptr && (to == nullptr || price < least)) seller = &task, to = other, least = price;
    }
    if (to == nullptr) break;
    out.saved += seller->now.bytes - to->bytes;
    seller->now = *to;
    out.schedules[seller->node] = seller->now.schedule;
  }
  return out;
}

int64_t parameter_bytes(const Graph& graph) {
  int64_t bytes = 0;
  for (ValueId v = 0; v < static_cast<ValueId>(graph.value_count()); ++v) {
    const Value& value = graph.value(v);
    if (!value.dead && value.constant) bytes += value.constant->bytes();
  }
  return bytes;
}

void check_budget(const std::string& model, int64_t memory, int64_t weights, int64_t arena, int64_t slimmed) {
  if (weights + arena <= memory) return;
  fail(ErrorKind::usage,
       "--memory {}: '{}' needs {} bytes: packed weights {}, arena {}; {}. Give at least that much, or compile for a "
       "smaller input",
       memory, model, weights + arena, weights, arena,
       slimmed == 0 ? "no layer has a kernel with smaller weights"
                    : fmt::format("{} layers already run kernels with smaller weights", slimmed));
}

}  // namespace kilter
