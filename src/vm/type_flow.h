// Follows types through a program without running it.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "graph/graph.h"
#include "vm/program.h"

namespace kilter::vm {

/// The type of a value if it is the same tensor type in every run; nullopt: it may differ, or the value is not a
/// tensor.
using KnownType = std::optional<TensorType>;
/// Returns the types of a segment's outputs for inputs of these types; nullopt if they depend on data.
using SegmentTypes =
    std::function<std::optional<std::vector<TensorType>>(int32_t segment, const std::vector<TensorType>& inputs)>;

/// Calls `types` for every segment with the types that its inputs have in all runs, or in the first iteration of a loop
/// around it. `inputs`: those of the network. Returns, by segment, whether it never runs with inputs of other types.
std::vector<bool> follow_types(const Program& program, const std::vector<KnownType>& inputs, const SegmentTypes& types);

}  // namespace kilter::vm
