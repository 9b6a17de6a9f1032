// The range of integers that an input may contain if it is used as indices. Generated inputs stay within it.
#pragma once

#include <optional>

#include "exec/plan.h"
#include "graph/graph.h"

namespace kilter {

/// The smallest dimension that a value indexes, directly or after moves and casts; empty if it is not an index.
std::optional<int64_t> index_limit(const Graph& graph, ValueId value);
/// The smallest dimension that an input of a plan indexes, directly or after casts; empty if it is not an index.
std::optional<int64_t> index_limit(const Plan& plan, int32_t input);

}  // namespace kilter
