// Names in compile options that nothing in the network or in the table of passes has.
#pragma once

#include "compile/compile.h"
#include "graph/graph.h"

namespace kilter {

/// --stop-after and --disable name passes. Throws usage, listing the legal names.
void check_pass_names(const CompileOptions& options);
/// Options that name tasks by their anchors, or nodes, of the graph as it is lowered: after the last pass, with what
/// placing it in memory added. Throws usage, listing the legal names.
void check_node_names(const Graph& graph, const CompileOptions& options);

}  // namespace kilter
