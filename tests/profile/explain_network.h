// A built-in network as `explain` takes it.
#pragma once

#include "compile/session.h"
#include "profile/explain.h"
#include "zoo/zoo.h"

namespace kilter::profile {

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
