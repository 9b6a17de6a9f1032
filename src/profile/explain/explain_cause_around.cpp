// Causes outside the network: other programs, and schedules that tuning has found or could find.

#include <fmt/format.h>

#include <algorithm>

#include "profile/explain/explain_causes.h"

namespace kilter::profile {

std::vector<Suspicion> find_busy_machine(const Context& c) {
  if (c.quiet() != Quietness::busy) return {};
  const Conditions& conditions = c.profile.conditions;
  Suspicion s{{}, {}, quiet_text(conditions), 0};
  s.comes_first = true;
  if (conditions.best_ms > 0) s.gain_ms = std::max(c.profile.end_to_end_ms - conditions.best_ms, 0.0);
  const int cpus = count_cpus(conditions.pinning);
  if (more_threads_than_cpus(conditions)) {
    s.advice = fmt::format("use no more threads than CPUs: --threads {}", cpus);
    Setting fewer = c.setting();
    fewer.threads = cpus;
    s.action = compare_command(c.subject, c.setting(), fewer);
  } else {
    s.advice =
        "measure again when nothing else runs (`top` shows what does); this command says whether the machine is quiet:";
    s.action = bench_command(c.subject, c.setting());
  }
  return {s};
}

namespace {

Suspicion of_tuning(const TuningGain& gain) {
  Suspicion s{{}, {}, gain.evidence, gain.gain_ms, gain.advice, {}};
  s.action = gain.action;
  return s;
}

}  // namespace

std::vector<Suspicion> find_unused_plans(const Context& c) {
  std::vector<Suspicion> all;
  if (!c.profile.tuning) return all;
  for (const TuningGain& gain : c.profile.tuning->gains) {
    if (gain.kind != TuningGain::unused) continue;
    all.push_back(of_tuning(gain));
    if (c.subject.tuned) all.back().other = Suspicion::Other::tuned_plan;
  }
  return all;
}

std::vector<Suspicion> find_untuned_layers(const Context& c) {
  std::vector<Suspicion> all;
  if (!c.profile.tuning) return all;
  for (const TuningGain& gain : c.profile.tuning->gains) {
    if (gain.kind == TuningGain::untuned && c.matters(gain.gain_ms)) all.push_back(of_tuning(gain));
  }
  return all;
}

}  // namespace kilter::profile
