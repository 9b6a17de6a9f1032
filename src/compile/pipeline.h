// The driver of the graph passes: runs a pass and checks its result.
#pragma once

#include "compile/compile.h"
#include "passes/pass.h"

namespace kilter {

/// Runs one pass, renames nodes from `made_by_passes` on as Graph::give_names_back() does, and checks the resulting
/// graph: verify(), and that its outputs keep their element types and shapes. Internal errors name the pass.
void run_checked(const PassRow& row, Graph& graph, PassContext& context, NodeId made_by_passes);

}  // namespace kilter
