// Movement of whole pixels of images: crops, strided slices and padding that repeats the image.
#pragma once

#include <optional>
#include <vector>

#include "graph/graph.h"

namespace kilter {

/// Pixel (i, j) of the result is pixel (rows[i], columns[j]) of the image [n, c, h, w].
struct PixelMove {
  std::vector<int64_t> rows, columns;
};

/// What a Slice, Pad, Tile or CenterCropPad takes of its first input, where that is an f32 image that is no constant,
/// all of its channels are taken as they are, and nothing is filled in; nullopt for everything else.
std::optional<PixelMove> pixel_move(const Graph& graph, const Node& node);

}  // namespace kilter
