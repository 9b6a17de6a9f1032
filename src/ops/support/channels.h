// The channels of several images, counted through all of them.
#pragma once

#include <span>
#include <vector>

#include "graph/graph.h"

namespace kilter {

struct ChannelOf {
  size_t image = 0;  ///< among those that are counted
  int64_t channel = 0;
  auto operator<=>(const ChannelOf&) const = default;
};

/// All channels of images [n, c, ...] with so many channels each, in order.
std::vector<ChannelOf> channels_of(std::span<const int64_t> counts);
std::vector<ChannelOf> channels_of(const Graph& graph, std::span<const ValueId> images);

}  // namespace kilter
