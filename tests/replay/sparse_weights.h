// A network of the speed set with weights that take no room on disk.
#pragma once

#include <filesystem>

#include "graph/graph.h"

namespace kilter::replay {

/// Loads a graph whose weights are external data that do not exist. A sparse file in `folder` stands for them: the
/// first values of each tensor are positive and unlike those of any other, so that no two tensors are equal and none is
/// all zeros; the rest is 0. Schedules and loops depend on the shapes of weights, not on their values.
Graph load_without_weights(const std::filesystem::path& model, const std::filesystem::path& folder);

}  // namespace kilter::replay
