// Exact elimination of the nodes of a core through tables over their neighbours.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tune/graph/work_graph.h"

namespace kilter::tune {

/// The best choice of the core's nodes (others are left at 0), by eliminating its nodes in the order of the smallest
/// tables; nothing when the tables together would have more than `limit` entries times eliminated alternatives. The
/// graph has passed drop_impossible(). When nothing is possible, the choice costs infinity.
std::optional<std::vector<size_t>> eliminate(const WorkGraph& graph, int64_t limit);

}  // namespace kilter::tune
