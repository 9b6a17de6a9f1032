// Nodes that run through their reference kernel: as data in the plan, and back.
#pragma once

#include "exec/plan.h"
#include "graph/graph.h"

namespace kilter {

/// Everything about the node that its kernel needs. Throws unsupported for nodes with subgraphs.
ReferenceCall make_reference_call(const Graph& graph, const Node& node);

}  // namespace kilter
