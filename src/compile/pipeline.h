// The driver of the graph passes: what runs one and checks what it made.
#pragma once

#include "compile/compile.h"
#include "passes/pass.h"

namespace kilter {

/// Runs one pass, names nodes from `made_by_passes` on as Graph::give_names_back() does and checks the graph that comes
/// out: verify(), and that its outputs have the element types and shapes that they had. Internal errors name the pass.
void run_checked(const PassRow& row, Graph& graph, PassContext& context, NodeId made_by_passes);

}  // namespace kilter
