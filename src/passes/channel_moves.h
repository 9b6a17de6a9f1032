// Movement of whole channels of images: concatenations, parts and selections of channels, each as the list of channels
// that it takes.
#pragma once

#include <optional>
#include <vector>

#include "graph/graph.h"

namespace kilter {

/// channels[k] is the channel, counted through all images [n, c, h, w], that channel k of the result is.
struct ChannelMove {
  std::vector<ValueId> images;
  std::vector<int64_t> channels;
};

/// What output `output` of a Concat, Slice, Split, Gather or TakeChannels takes, where that is whole channels of f32
/// images that are no constants; nullopt for everything else.
std::optional<ChannelMove> channel_move(const Graph& graph, const Node& node, size_t output);

/// The same move from what makes its images, as far as those are moves that nothing else reads and a vector of `block`
/// channels is put together from few.
ChannelMove through_producers(const Graph& graph, ChannelMove move, int32_t block);

}  // namespace kilter
