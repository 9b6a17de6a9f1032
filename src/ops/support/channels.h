// The channels of several images, numbered consecutively.
#pragma once

#include <span>
#include <vector>

#include "graph/graph.h"

namespace kilter {

struct ChannelOf {
  size_t image = 0;  ///< index of the image
  int64_t channel = 0;
  auto operator<=>(const ChannelOf&) const = default;
};

/// Returns all channels, in order, of images [n, c, ...] with these numbers of channels.
std::vector<ChannelOf> channels_of(std::span<const int64_t> counts);
std::vector<ChannelOf> channels_of(const Graph& graph, std::span<const ValueId> images);

}  // namespace kilter
