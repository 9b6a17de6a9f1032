// The profile of runs on another machine.
#include <algorithm>
#include <utility>

#include "base/error.h"
#include "profile/bounds.h"
#include "profile/pairs.h"
#include "profile/profile.h"

namespace kilter::profile {
namespace {

double sum(const std::vector<double>& values, size_t first = 0) {
  double total = 0;
  for (size_t i = first; i < values.size(); ++i) total += values[i];
  return total;
}

Row gap_row(const char* name, int64_t count, const Time& time) {
  Row row;
  row.kind = RowKind::gap;
  row.name = name, row.count = count, row.time = time;
  return row;
}

std::vector<Row> rows_of(const Plan& plan, const std::vector<RunTimes>& runs) {
  const std::vector<std::string> stages = stages_of(plan);
  std::vector<Row> rows;
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    Row& row = rows.emplace_back(row_of(plan, s, stages[s]));
    row.time = over_passes(runs, [&](const RunTimes& run) { return run.step[s]; });
    row.gap_ms = over_passes(runs, [&](const RunTimes& run) { return run.gap[s]; }).mean;
  }
  const auto first = [](const RunTimes& run) { return run.gap.empty() ? 0 : run.gap.front(); };
  rows.push_back(gap_row("before the first layer", 1, over_passes(runs, first)));
  const auto between = [](const RunTimes& run) { return sum(run.gap, 1); };
  rows.push_back(
      gap_row("between layers", std::max<int64_t>(std::ssize(plan.steps) - 1, 0), over_passes(runs, between)));
  const auto after = [](const RunTimes& run) { return run.total - sum(run.step) - sum(run.gap); };
  rows.push_back(gap_row("after the last layer", 1, over_passes(runs, after)));
  return rows;
}

}  // namespace

Profile of_runs(const Plan& plan, const Conditions& conditions, std::vector<RunTimes> runs) {
  require(!runs.empty(), "a profile needs a run");
  for (const RunTimes& run : runs) {
    require(run.step.size() == plan.steps.size() && run.gap.size() == plan.steps.size(),
            "a run has times of {} steps; the plan has {}", run.step.size(), plan.steps.size());
  }
  Profile out;
  out.elsewhere = true;
  out.conditions = conditions, out.threads = conditions.threads;
  out.passes = out.conditions.taken = std::ssize(runs);
  std::ranges::stable_sort(runs, {}, &RunTimes::total);
  out.conditions.best_ms = runs.front().total;
  DisturbedCount disturbed;
  for (const RunTimes& run : runs) disturbed.add(run.disturbance);
  out.conditions.disturbed = disturbed.disturbed, out.conditions.disturbed_by = disturbed.why();
  if (2 * disturbed.disturbed <= out.passes)
    std::erase_if(runs, [](const RunTimes& run) { return run.disturbance.disturbed(); });
  keep_middle(runs);
  out.kept = out.conditions.kept = std::ssize(runs);
  out.total = over_passes(runs, [](const RunTimes& run) { return run.total; });
  out.total_ms = out.total.mean;
  out.rows = rows_of(plan, runs);
  for (const Row& row : out.rows) {
    out.sum_ms += row.time.mean;
    (row.kind == RowKind::gap ? out.gaps_ms : out.kernels_ms) += row.time.mean;
  }
  for (Row& row : out.rows) row.percent = out.sum_ms > 0 ? 100 * row.time.mean / out.sum_ms : 0;
  out.arena = plan.arena;
  out.arena_bytes = plan.arena_bytes, out.constants_bytes = plan.constants_bytes;
  out.scratch_bytes = plan.scratch_bytes * out.threads, out.code_bytes = plan.code_bytes;
  return out;
}

void set_bounds(Profile& profile, const Plan& plan, const Peaks& peaks) {
  profile.peaks = peaks;
  const Footprint run = footprint(plan);
  for (Row& row : profile.rows) {
    if (row.step < 0) continue;
    row.bound = bound_of(plan.steps[static_cast<size_t>(row.step)], run, peaks, profile.threads);
    row.bound.ms *= static_cast<double>(row.count);
  }
}

void set_bounds(Profile& profile, const Plan& plan, const std::function<Peaks()>& measure) {
  constexpr int kMost = 3;
  int measured = profile.peaks.gflops.empty() ? 0 : 1;
  set_bounds(profile, plan, profile.peaks);
  for (; measure && measured < kMost; ++measured) {
    if (measured > 0 && std::ranges::none_of(profile.rows, &Row::beats_bound)) return;
    set_bounds(profile, plan, better(profile.peaks, measure()));
  }
}

}  // namespace kilter::profile
