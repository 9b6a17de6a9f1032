// A compiled network with a made-up profile.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "explain_network.h"
#include "profile/explain/explain_causes.h"

namespace kilter::profile {

/// A compiled network with a profile in which every step takes a millisecond and its bound is half a millisecond.
class MadeUp {
 public:
  explicit MadeUp(int threads = 2, const CompileOptions& options = {}, const std::string& target = "x86-64-v4",
                  const std::string& network = "squeezenet1_1") {
    subject = subject_of(network, 64, threads, options);
    subject.compile.target = parse_target(target);
    CompileOptions keep = subject.compile;
    keep.contents.alternatives = true;
    compiled = compile_graph(subject.graph(), keep);
    for (Step& s : compiled.plan.steps) {
      if (choice_for(options.choices, s.name).threads == 0) s.max_threads = 0;  // 1 ms is worth all threads
    }
    profile.threads = threads;
    profile.peaks.gflops = {100, 200};
    for (size_t s = 0; s < compiled.plan.steps.size(); ++s) profile.rows.push_back(row_of(s));
    profile.sum_ms = profile.end_to_end_ms = profile.kernels_ms = static_cast<double>(profile.rows.size());
    profile.end_to_end = {profile.sum_ms, profile.sum_ms, profile.sum_ms};
    profile.conditions.pinning = "0-63", profile.conditions.threads = threads;
    disturb(0);
  }

  void disturb(int64_t of_hundred) {
    profile.conditions.taken = 100, profile.conditions.disturbed = of_hundred;
    profile.conditions.disturbed_by = "waited for a CPU in " + std::to_string(of_hundred);
    profile.conditions.best_ms = 0.75 * profile.end_to_end_ms;
  }

  Row& row(const std::string& name) {
    for (Row& r : profile.rows) {
      if (r.name == name && r.kind != RowKind::halo) return r;
    }
    throw std::runtime_error("no row " + name);
  }
  Step& step(const std::string& name) { return compiled.plan.steps[static_cast<size_t>(row(name).step)]; }

  std::vector<Suspicion> find(std::string_view cause) const {
    const Context context(subject, compiled.plan, &compiled, profile);
    for (const Cause& c : all_causes()) {
      if (c.name == cause) return c.find(context);
    }
    throw std::runtime_error("no cause " + std::string(cause));
  }
  /// Returns the suspicion that a cause raises at a layer ("" for the network). Throws unless there is exactly one.
  Suspicion at(std::string_view cause, const std::string& name) const {
    std::vector<Suspicion> here;
    std::string others;
    for (Suspicion& s : find(cause)) {
      others += " '" + s.name + "' (" + s.evidence + ")";
      if (s.name == name) here.push_back(std::move(s));
    }
    if (here.size() != 1)
      throw std::runtime_error(fmt::format("{} of {} at '{}', there are{}", here.size(), cause, name, others));
    return here.front();
  }

  Subject subject;
  Compiled compiled;
  Profile profile;

 private:
  Row row_of(size_t s) const {
    const Step& step = compiled.plan.steps[s];
    Row r;
    r.kind = step.kind == StepKind::halo        ? RowKind::halo
             : step.kind == StepKind::reference ? RowKind::reference
             : step.role == StepRole::relayout  ? RowKind::relayout
                                                : RowKind::layer;
    r.step = static_cast<int64_t>(s), r.role = step.role;
    r.name = step.name, r.ops = step.ops, r.problem = step.problem, r.schedule = step.schedule;
    r.layouts = step.layouts;
    r.count = 1;
    r.time = {1, 1, 1};
    r.threads = subject.threads;
    r.busy_ms.assign(static_cast<size_t>(subject.threads), 1);
    r.flops = step.flops, r.bytes = step.bytes, r.weight_bytes = weight_bytes(step);
    const bool contracts = step.role == StepRole::contraction;
    r.bound = {contracts ? Bound::compute : Bound::memory, 0.5, contracts ? "FMA" : "L2"};
    return r;
  }
};

}  // namespace kilter::profile
