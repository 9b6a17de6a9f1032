#include "ops/support/channels.h"

namespace kilter {

std::vector<ChannelOf> channels_of(std::span<const int64_t> counts) {
  std::vector<ChannelOf> all;
  for (size_t i = 0; i < counts.size(); ++i) {
    for (int64_t c = 0; c < counts[i]; ++c) all.push_back({i, c});
  }
  return all;
}

std::vector<ChannelOf> channels_of(const Graph& graph, std::span<const ValueId> images) {
  std::vector<int64_t> counts;
  for (const ValueId v : images) counts.push_back(graph.type(v).shape[1]);
  return channels_of(counts);
}

}  // namespace kilter
