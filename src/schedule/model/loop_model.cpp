#include "schedule/model/loop_model.h"

#include <algorithm>
#include <limits>

#include "schedule/model/register_tile.h"

namespace kilter {
namespace {

/// Bytes that a stage reads and writes, each operand counted once.
double operand_bytes(const LoopFunc& func) {
  double bytes = 0;
  for (const Buffer& b : func.buffers) {
    if (b.kind != BufferKind::scratch) bytes += static_cast<double>(b.elems * size_bytes(b.type));
  }
  return bytes;
}

/// Cycles that memory needs for the reads and writes of a stage. Operands count as a whole, unless the stage reads and
/// writes fewer bytes than that, because it selects from them.
double stream_cycles(const LoopFunc& func, const LoopCount& count, const CpuLimits& limits) {
  const double touched = std::min(operand_bytes(func), count.bytes);
  const auto rate = [&](double bytes) { return reread_rate(static_cast<int64_t>(bytes), limits); };
  const double once = touched / rate(touched);
  const double item = touched / static_cast<double>(count.items) + static_cast<double>(func.scratch_bytes());
  if (item <= static_cast<double>(limits.l1_bytes) / 2) return once;
  return std::max(once, count.bytes / rate(item));
}

double cycles_of(const Lowered& lowered, const CpuLimits& limits, double& written) {
  double cycles = 0;
  for (const Stage& stage : lowered.stages) {
    const LoopCount count = count_loops(stage.func, limits);
    cycles += beside(count.cycles, stream_cycles(stage.func, count, limits));
    written += count.written;
  }
  return cycles;
}

/// The number of parallel items of the stage that has the fewest.
int64_t items_of(const Lowered& lowered) {
  int64_t least = std::numeric_limits<int64_t>::max();
  for (const Stage& stage : lowered.stages) least = std::min(least, stage.func.parallel_extent());
  return least;
}

std::vector<Schedule> points(const std::string& name, const std::vector<Knob>& space) {
  std::vector<Schedule> all{{name, {}}};
  for (const Knob& knob : space) {
    std::vector<Schedule> longer;
    for (const Schedule& s : all) {
      for (const int64_t value : knob.values) {
        longer.push_back(s);
        longer.back().knobs.emplace_back(knob.name, value);
      }
    }
    all = std::move(longer);
  }
  return all;
}

/// A candidate and the model's prediction for it.
struct Counted {
  Schedule schedule;
  double cycles = 0;
};

/// The candidates, the usual schedule first.
std::vector<Counted> counted(const Analysed& analysed, const Schedule& usual) {
  std::vector<Counted> all;
  int64_t items = 0;
  const auto take = [&](const Schedule& schedule) {
    const auto lowered = analysed.lower(schedule);
    if (!lowered || items_of(*lowered) < std::min(items, kFewItems)) return;
    if (all.empty()) items = items_of(*lowered);
    double written = 0;
    all.push_back({schedule, cycles_of(*lowered, analysed.limits(), written)});
  };
  take(usual);
  for (const Schedule& s : points(usual.name, analysed.space())) {
    if (!(s == usual)) take(s);
  }
  return all;
}

}  // namespace

Estimate estimate_lowered(const Task& task, const Lowered& lowered, const CpuLimits& limits) {
  double written = 0, wanted = 0;
  const double cycles = cycles_of(lowered, limits, written);
  for (const Operand& out : task.outputs) wanted += static_cast<double>(elems(out.type.shape));
  return {std::max(cycles, 1.0), written > 0 ? std::clamp(1 - wanted / written, 0.0, 1.0) : 0};
}

std::vector<Schedule> LoopModel::candidates() const {
  std::vector<Schedule> all;
  for (Counted& c : counted(*this, usual())) all.push_back(std::move(c.schedule));
  return all;
}

Result<Schedule> LoopModel::pick() const {
  Schedule first = usual();
  if (first.knobs.empty()) return first;
  const std::vector<Counted> all = counted(*this, first);
  const auto cheaper = [](const Counted& a, const Counted& b) { return a.cycles < b.cycles; };
  const auto best = std::ranges::min_element(all, cheaper);
  if (best == all.end() || !(best->cycles < all.front().cycles * (1 - kCountError))) return first;
  return best->schedule;
}

Estimate LoopModel::model(const Schedule& schedule) const { return estimate_lowered(task(), emit(schedule), limits()); }

}  // namespace kilter
