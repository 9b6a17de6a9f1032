// Moves of whole image channels: concatenations, parts and selections of channels, each described by the list of
// channels that it selects.
#pragma once

#include <optional>
#include <vector>

#include "graph/graph.h"

namespace kilter {

/// channels[k] is the source of the result's channel k, counted through the channels of all images [n, c, h, w].
struct ChannelMove {
  std::vector<ValueId> images;
  std::vector<int64_t> channels;
};

/// Returns the channels that output `output` of a Concat, Slice, Split, Gather or TakeChannels selects, if these are
/// whole channels of non-constant f32 images; nullopt otherwise.
std::optional<ChannelMove> channel_move(const Graph& graph, const Node& node, size_t output);

/// Returns a move with the same result and earlier sources: an image that is the result of a channel move, and that
/// nothing else reads, is replaced by the inputs of that move, as long as each vector of `block` channels is assembled
/// from few source vectors.
ChannelMove through_producers(const Graph& graph, ChannelMove move, int32_t block);

}  // namespace kilter
