// Builds a plan from a fused graph: storage, lowering, machine code, packed constants, arena.
#pragma once

#include "compile/compile.h"
#include "graph/graph.h"

namespace kilter {

/// Builds the plan of a graph after the last graph pass. Adds Relayout nodes to its own copy where memory must be
/// copied.
Compiled build_plan(const Graph& graph, const CompileOptions& options);

}  // namespace kilter
