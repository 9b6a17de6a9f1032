// Merges equal nodes before a graph is divided into instructions. A pass merges those of a segment
// (passes/common_subexpressions.cpp); this also merges nodes that run on the host and nodes with regions.
#pragma once

#include <memory>

#include "graph/open_graph.h"

namespace kilter::vm {

/// Returns a graph without nodes that compute the same as an earlier one, in regions as well. Values keep their ids.
/// Nodes that compute outputs of their graph stay. Returns `graph` itself if there is nothing to merge.
std::shared_ptr<const OpenGraph> merge_nodes(std::shared_ptr<const OpenGraph> graph);

}  // namespace kilter::vm
