// Exact elimination of a core's nodes through tables over their neighbours.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tune/graph/work_graph.h"

namespace kilter::tune {

/// Finds the best choice for the core's nodes (0 for all others) by eliminating them one by one, always the one with
/// the smallest table. Empty if the work would exceed `limit`: the sum over all tables of entries times alternatives of
/// the eliminated node. The graph must have passed drop_impossible(). If nothing is possible, the choice costs
/// infinity.
std::optional<std::vector<size_t>> eliminate(const WorkGraph& graph, int64_t limit);

}  // namespace kilter::tune
