// Which integers an input may hold where it is used as indices: what generated inputs keep to.
#pragma once

#include <optional>

#include "exec/plan.h"
#include "graph/graph.h"

namespace kilter {

/// The least size of the dimensions that a value, moved or cast at most, is an index into; nothing where it is none.
std::optional<int64_t> index_limit(const Graph& graph, ValueId value);
/// The same of an input of a plan, cast at most.
std::optional<int64_t> index_limit(const Plan& plan, int32_t input);

}  // namespace kilter
