#include "tune/tuner/graph_best/alternatives.h"

#include <algorithm>
#include <cmath>

#include "compile/tasks.h"
#include "measure/stats.h"
#include "tune/tuner/objective.h"
#include "tune/tuner/plans/apply.h"
#include "tune/tuner/plans/weight_budget.h"

namespace kilter::tune {
namespace {

/// Relative error of an estimate without a measurement: the usual error of analytic models.
constexpr double kEstimateError = 0.3;
/// The assumed ratio, over the default's time, for a history-best schedule measured under other conditions. It is below
/// 1, so the schedule stays unless there is evidence against it.
constexpr double kKept = 0.99;
/// Cycles of one core in a millisecond, used if no layer's time is known. It scales all estimates by the same factor,
/// which cancels when they are compared.
constexpr double kCyclesPerMs = 2.5e6;

void add_recorded(Layer& layer, const RecordedCosts::Known& known) {
  const double base = layer.alternatives.front().ms;
  layer.alternatives.push_back(
      {LayerChoice(known.schedule), base * known.ratio.value, base * known.ratio.half_width() / 2, "records"});
}

bool has(const Layer& layer, const Schedule& schedule) {
  return std::any_of(layer.alternatives.begin(), layer.alternatives.end(),
                     [&](const Alternative& a) { return a.choice.schedule == schedule; });
}

/// Adds the best schedules of each template by its model, starting with the default's own template.
void add_estimated(Layer& layer, const Task& task, const CompileOptions& options, size_t most) {
  constexpr size_t kOfTemplate = 3;
  const double base = layer.alternatives.front().ms;
  for (const Template* from : all_templates()) {
    if (from->approximates != nullptr && options.accuracy == Accuracy::strict) continue;
    for (const Ranked& r : rank(*from, task, options.target.limits, kOfTemplate)) {
      if (layer.alternatives.size() > most) return;
      if (r.schedule.text() == layer.schedule || has(layer, r.schedule)) continue;
      const double ratio = layer.analytic_cycles > 0 ? r.estimate.cycles / layer.analytic_cycles : 1;
      if (ratio > 1 + kEstimateError || !lowers(task, r.schedule, options)) continue;
      layer.alternatives.push_back({LayerChoice(r.schedule), base * ratio, base * kEstimateError, "estimated"});
    }
  }
}

/// Sets the layers' default times from records, or otherwise from the analytic models, scaled to match the layers that
/// have recorded times.
void add_default_ms(LayerNetwork& network, const RecordedCosts& costs) {
  std::vector<double> scales;
  for (const Layer& layer : network.layers) {
    const double ms = costs.default_ms(layer);
    if (ms > 0 && layer.analytic_cycles > 0) scales.push_back(ms / layer.analytic_cycles);
  }
  const double scale = scales.empty() ? 1 / kCyclesPerMs : median(scales);
  for (Layer& layer : network.layers) {
    Alternative& own = layer.alternatives.front();
    const double ms = costs.default_ms(layer);
    if (own.ms > 0) continue;
    own.ms = ms > 0 ? ms : layer.analytic_cycles * scale;
    if (own.ms > 0) own.basis = ms > 0 ? "records" : "estimated";
  }
}

void add_kept(Layer& layer, const Schedule& kept, const RecordedCosts& costs) {
  if (has(layer, kept)) return;
  if (const auto known = costs.find(layer, kept)) return add_recorded(layer, *known);
  const double base = layer.alternatives.front().ms;
  layer.alternatives.push_back({LayerChoice(kept), base * kKept, base * kEstimateError, "estimated"});
}

void add_weights(Layer& layer, const Task& task, const CpuLimits& limits) {
  const int64_t own = packed_bytes(task, parse_schedule(layer.schedule), limits);
  for (Alternative& a : layer.alternatives) {
    if (a.choice.schedule) a.weight_bytes = packed_bytes(task, *a.choice.schedule, limits) - own;
  }
}

void add_bytes(Layer& layer, const LayerMemory& memory) {
  for (Alternative& a : layer.alternatives) {
    if (a.choice.schedule) a.bytes = memory.more({layer.node}, *a.choice.schedule);
  }
}

}  // namespace

void add_schedules(LayerNetwork& network, const Compiled& compiled, const CompileOptions& options,
                   const RecordedCosts& costs, const Choices& keep, size_t most, const LayerMemory* memory) {
  add_default_ms(network, costs);
  for (const Task& task : tasks_of(compiled.tasks->graph, compiled.tasks->storage)) {
    const int64_t at = network.layer_of(task.node().name);
    Layer& layer = network.layers[static_cast<size_t>(at)];
    // A copy inserted by storage exists only once values are placed, so no choice can refer to it by name.
    if (!layer.task() || layer.relayout || forced_schedule(options.choices, layer.node) != nullptr) continue;
    const auto best = costs.best(layer, most, memory == nullptr ? RecordedCosts::kOtherTemplate : kMostTime);
    for (const RecordedCosts::Known& known : best) {
      if (lowers(task, known.schedule, options)) add_recorded(layer, known);
    }
    // This precedes add_estimated(), which skips schedules that are already present: if a schedule was chosen by
    // measurements elsewhere, its cost must not come from a model.
    const auto kept = keep.find(layer.node);
    if (kept != keep.end() && kept->second.schedule) add_kept(layer, *kept->second.schedule, costs);
    if (best.empty()) add_estimated(layer, task, options, most);
    add_weights(layer, task, options.target.limits);
    if (memory != nullptr) add_bytes(layer, *memory);
  }
}

}  // namespace kilter::tune
