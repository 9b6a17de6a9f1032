// Rows and columns of an image as runs: what TakePixels takes.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/support/resize_coords.h"

namespace kilter {

/// Indices as runs: first, step and count of each in turn.
std::vector<int64_t> runs_of(const std::vector<int64_t>& indices);
/// The indices again. Throws bad_model with the node for runs that leave 0 to extent - 1, or are no triples.
std::vector<int64_t> indices_of(const Node& node, std::string_view attribute, int64_t extent);

/// A TakePixels of an image of shape x as a resize.
ResizePlan pixels_plan(const Node& node, const Shape& x);

}  // namespace kilter
