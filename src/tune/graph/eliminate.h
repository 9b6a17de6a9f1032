// Exact elimination of a core's nodes through tables over their neighbours.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tune/graph/work_graph.h"

namespace kilter::tune {

/// Finds the best choice of the core's nodes (others stay at 0) by eliminating its nodes in the order of the smallest
/// tables. Empty if the tables together would need more than `limit` entries times eliminated alternatives. The graph
/// must have passed drop_impossible(). If nothing is possible, the choice costs infinity.
std::optional<std::vector<size_t>> eliminate(const WorkGraph& graph, int64_t limit);

}  // namespace kilter::tune
