// Builds a plan from a graph after the last pass: the table of stages, and their driver.
#pragma once

#include <optional>

#include "compile/chooser.h"
#include "compile/compile.h"
#include "graph/graph.h"

namespace kilter {

/// The constructor runs the stages that make choices, and finish() runs the others.
class PlanBuild {
 public:
  /// `offer` may be null. Throws usage if the graph cannot be compiled with the choices of the options.
  PlanBuild(const PassedGraph& passed, const CompileOptions& options, const Offer* offer);
  ~PlanBuild();

  /// Packs constants and generates code. Call it once.
  Compiled finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kilter
