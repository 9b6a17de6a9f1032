// From a fused graph to a plan: storage, lowering, machine code, packed constants, arena.
#pragma once

#include "compile/compile.h"
#include "graph/graph.h"

namespace kilter {

/// The graph after the last graph pass; it gets Relayout nodes where copies are unavoidable.
Compiled build_plan(const Graph& graph, const CompileOptions& options);

}  // namespace kilter
