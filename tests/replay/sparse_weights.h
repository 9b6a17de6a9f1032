// Networks of the speed set with weights that occupy no disk space.
#pragma once

#include <filesystem>

#include "graph/graph.h"

namespace kilter::replay {

/// Loads a graph whose weights are in an external file that does not exist. A sparse file in `folder` replaces it: the
/// first values of each tensor are positive and differ from those of all other tensors, so no two tensors are equal and
/// none is all zeros; the rest is 0. Schedules and loops depend on the shapes of weights, not on their values.
Graph load_without_weights(const std::filesystem::path& model, const std::filesystem::path& folder);

}  // namespace kilter::replay
