// Rows and columns of an image as runs, which TakePixels uses.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/support/resize_coords.h"

namespace kilter {

/// Encodes indices as runs: first, step and count of each in turn.
std::vector<int64_t> runs_of(const std::vector<int64_t>& indices);
/// Decodes the runs into indices. Throws bad_model with the node for runs that leave [0, extent), or are not triples.
std::vector<int64_t> indices_of(const Node& node, std::string_view attribute, int64_t extent);

/// Returns a TakePixels of an image of shape x as a resize.
ResizePlan pixels_plan(const Node& node, const Shape& x);

}  // namespace kilter
