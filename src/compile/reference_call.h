// Describes, as data in the plan, the nodes that run their reference kernel.
#pragma once

#include "exec/plan.h"
#include "graph/graph.h"

namespace kilter {

/// Everything that the node's kernel needs to know. Throws unsupported for nodes with subgraphs and for string tensors.
ReferenceCall make_reference_call(const Graph& graph, const Node& node);

}  // namespace kilter
