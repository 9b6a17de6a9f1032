// Moves of whole image pixels: crops, strided slices, and padding that repeats the image.
#pragma once

#include <optional>
#include <vector>

#include "graph/graph.h"

namespace kilter {

/// Pixel (i, j) of the result is pixel (rows[i], columns[j]) of the image [n, c, h, w].
struct PixelMove {
  std::vector<int64_t> rows, columns;
};

/// Returns the pixels that a Slice, Pad, Tile or CenterCropPad selects from its first input, if that is a non-constant
/// f32 image, all of its channels are kept and nothing is filled in; nullopt otherwise.
std::optional<PixelMove> pixel_move(const Graph& graph, const Node& node);

}  // namespace kilter
