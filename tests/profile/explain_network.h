// A built-in network in the form that `explain` expects.
#pragma once

#include "compile/session.h"
#include "profile/explain/explain.h"
#include "zoo/zoo.h"

namespace kilter::profile {

/// Returns the readings of a quiet machine.
inline std::function<QuietReading()> quiet_machine() {
  return [] { return QuietReading{0, 0, 0, 4000, true, true}; };
}
/// Returns the readings of a machine whose CPUs other processes use all the time.
inline std::function<QuietReading()> busy_machine() {
  return [wait_ms = 0.0]() mutable {
    wait_ms += 1000;
    return QuietReading{0, wait_ms, 0, 4000, true, true};
  };
}
/// Returns readings of which one in three is disturbed.
inline std::function<QuietReading()> partly_busy_machine() {
  return [wait_ms = 0.0, reading = 0]() mutable {
    if (++reading % 6 == 0) wait_ms += 1000;
    return QuietReading{0, wait_ms, 0, 4000, true, true};
  };
}

inline Subject subject_of(const std::string& network, int64_t size, int threads, const CompileOptions& options = {}) {
  Subject s;
  s.model = "zoo:" + network;
  s.graph = [=] { return zoo::build(network, {.size = size}); };
  s.compile = options;
  if (s.compile.target.name.empty()) s.compile.target = parse_target("native");
  s.threads = s.cpus = threads;
  const Graph graph = zoo::build(network, {.size = size, .weights = false});
  for (ValueId v : graph.inputs()) {
    const Value& value = graph.value(v);
    s.inputs.emplace(value.name, random_input(value.name, value.type.dtype, value.type.shape));
  }
  return s;
}

}  // namespace kilter::profile
