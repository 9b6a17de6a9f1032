#include "profile/explain/explain_causes.h"

#include <fmt/format.h>

#include <algorithm>

#include "schedule/emit.h"

namespace kilter::profile {

namespace {

constexpr Cause kCauses[] = {
    {"the machine is busy", "the share of runs that other programs disturbed", find_busy_machine},
    {"a tuned plan is not used", "records from this machine that the network does not use but could",
     find_unused_plans},
    {"not tuned", "schedules left to try, according to the records from this machine", find_untuned_layers},
    {"reference kernel", "steps that run an operator's reference kernel", find_reference_kernels},
    {"unfused neighbour", "steps next to a task that could have included them", find_unfused_neighbours},
    {"layout change", "layout changes, halos, copies, packing, and the layers that need them", find_layout_changes},
    {"passes held back", "--disable, --stop-after, --max-rewrites", find_passes_held_back},
    {"too few threads busy", "limits, work items and balance of each parallel region", find_idle_threads},
    {"poor register tile", "the model's time for the schedule and for its best one", find_poor_tiles},
    {"slower template", "the model's time for the chosen template and for templates that were excluded",
     find_slower_templates},
    {"tail of a tile", "the model's share of cycles in tiles that are not full", find_tails},
    {"first layer with few channels", "convolutions that read a plain image", find_first_layers},
    {"weights streamed from memory", "layers bound by the bytes of their weights", find_streamed_weights},
    {"activations from far away", "layers bound by the bytes of their activations", find_far_activations},
    {"faster precision", "f32 layers, and the measured peaks of narrower types", find_faster_precisions},
    {"not quantised", "f32 layers, and the measured peak of products of bytes", find_unquantised},
    {"barriers and gaps", "time in forks, joins and between regions", find_overheads},
};

}  // namespace

std::span<const Cause> all_causes() { return kCauses; }

std::string ms_text(double ms) { return ms < 0.1 ? fmt::format("{:.1f} us", ms * 1e3) : fmt::format("{:.3f} ms", ms); }

std::string bytes_text(int64_t bytes) {
  const auto b = static_cast<double>(bytes);
  return b < 1e5 ? fmt::format("{:.1f} KB", b * 1e-3) : fmt::format("{:.1f} MB", b * 1e-6);
}

std::string percent_text(double share) { return fmt::format("{:.0f} %", 100 * share); }

Context::Context(const Subject& of, const Plan& its_plan, const Compiled* notes, const Profile& measured)
    : subject(of),
      plan(its_plan),
      compiled(notes),
      profile(measured),
      by_step_(its_plan.steps.size(), nullptr),
      users_(its_plan.steps.size()) {
  for (const Row& row : profile.rows) {
    if (row.step < 0) continue;
    rows_.push_back(&row);
    by_step_[static_cast<size_t>(row.step)] = &row;
  }
  for (size_t s = 0; compiled != nullptr && s < compiled->notes.size(); ++s) {
    for (size_t from : compiled->notes[s].producers) users_[from].push_back(s);
  }
}

const StepNotes& Context::notes(size_t step) const {
  static const StepNotes kNone;
  return compiled == nullptr ? kNone : compiled->notes[step];
}

const Row* Context::layer(std::string_view name) const {
  const auto it = std::find_if(rows_.rbegin(), rows_.rend(), [&](const Row* r) {
    return r->name == name && r->kind != RowKind::halo && r->kind != RowKind::pack;
  });
  return it == rows_.rend() ? nullptr : *it;
}

const Row* Context::layer_with(const std::string& node) const {
  for (size_t s = 0; compiled != nullptr && s < compiled->notes.size(); ++s) {
    const auto& nodes = compiled->notes[s].nodes;
    if (std::find(nodes.begin(), nodes.end(), node) != nodes.end()) return by_step_[s];
  }
  return nullptr;
}

bool changes_layout(const Row& row) {
  return row.role == StepRole::relayout || row.role == StepRole::fused_relayout || row.kind == RowKind::copy;
}

int Context::usable_threads(const Step& step) const {
  const int most = step.max_threads > 0 ? std::min<int>(step.max_threads, subject.threads) : subject.threads;
  return static_cast<int>(std::clamp<int64_t>(step.extent, 1, most));
}

double Context::model_ms(const Estimate& estimate, const Step& step) const {
  const double gflops = profile.peaks.at(profile.peaks.gflops, usable_threads(step));
  return gflops > 0 ? estimate.cycles * subject.compile.target.limits.flops_per_cycle() / gflops * 1e-6 : 0;
}

}  // namespace kilter::profile
