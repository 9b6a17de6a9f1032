#include "passes/channel_moves.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "ops/builder.h"
#include "ops/views.h"
#include "passes/match.h"

namespace kilter {
namespace {

constexpr size_t kMaxSources = 6;  ///< vectors that one vector of a composed move is put together from

int64_t channels_of(const Graph& graph, ValueId image) { return graph.type(image).shape[1]; }

bool image(const Graph& graph, ValueId v) {
  if (v == kNone || graph.value(v).constant) return false;
  const TensorType& t = graph.type(v);
  return t.dtype == DType::f32 && t.shape.size() == 4 && elems(t.shape) > 0;
}

std::vector<int64_t> run(int64_t first, int64_t count) {
  std::vector<int64_t> all(static_cast<size_t>(count));
  std::iota(all.begin(), all.end(), first);
  return all;
}

/// Constant indices along the channels; negative ones count from the end.
std::optional<std::vector<int64_t>> gathered(const Graph& graph, const Node& node) {
  const Tensor* indices = node.inputs[1] == kNone || !graph.value(node.inputs[1]).constant
                              ? nullptr
                              : &*graph.value(node.inputs[1]).constant;
  if (indices == nullptr || indices->shape().size() != 1 || normal_axis(node, node.int_attr("axis", 0), 4) != 1)
    return std::nullopt;
  const int64_t extent = channels_of(graph, node.inputs[0]);
  std::vector<int64_t> channels = indices->ints();
  for (int64_t& c : channels) {
    if (c < 0) c += extent;
    if (c < 0 || c >= extent) return std::nullopt;
  }
  return channels;
}

/// The most vectors of blocked images that one vector of the result is put together from.
size_t sources(const Graph& graph, const ChannelMove& move, int32_t block) {
  std::vector<std::pair<size_t, int64_t>> vectors;
  for (size_t i = 0; i < move.images.size(); ++i) {
    for (int64_t c = 0; c < channels_of(graph, move.images[i]); ++c) vectors.emplace_back(i, c / block);
  }
  size_t most = 0;
  for (size_t k = 0; k < move.channels.size();) {
    std::set<std::pair<size_t, int64_t>> read;
    const size_t end = std::min(move.channels.size(), k + static_cast<size_t>(block));
    for (; k < end; ++k) read.insert(vectors[static_cast<size_t>(move.channels[k])]);
    most = std::max(most, read.size());
  }
  return most;
}

/// `move` with image `i` replaced by what `inner` takes; images that nothing is taken of any more are left out.
ChannelMove composed(const Graph& graph, const ChannelMove& move, size_t i, const ChannelMove& inner) {
  ChannelMove all;
  std::vector<std::pair<ValueId, int64_t>> outer, deeper;
  for (const ValueId v : move.images) {
    for (int64_t c = 0; c < channels_of(graph, v); ++c) outer.emplace_back(v, c);
  }
  for (const ValueId v : inner.images) {
    for (int64_t c = 0; c < channels_of(graph, v); ++c) deeper.emplace_back(v, c);
  }
  std::vector<std::pair<ValueId, int64_t>> taken;
  for (const int64_t c : move.channels) {
    auto from = outer[static_cast<size_t>(c)];
    if (from.first == move.images[i])
      from = deeper[static_cast<size_t>(inner.channels[static_cast<size_t>(from.second)])];
    if (std::ranges::find(all.images, from.first) == all.images.end()) all.images.push_back(from.first);
    taken.push_back(from);
  }
  for (const auto& [v, channel] : taken) {
    int64_t first = 0;
    for (size_t k = 0; all.images[k] != v; ++k) first += channels_of(graph, all.images[k]);
    all.channels.push_back(first + channel);
  }
  return all;
}

}  // namespace

std::optional<ChannelMove> channel_move(const Graph& graph, const Node& node, size_t output) {
  if (output >= node.outputs.size() || !image(graph, node.outputs[output])) return std::nullopt;
  const bool many = node.op->name == "Concat" || node.op->name == "TakeChannels";
  ChannelMove move{many ? node.inputs : std::vector<ValueId>{node.inputs[0]}, {}};
  if (!std::ranges::all_of(move.images, [&](ValueId v) { return image(graph, v); })) return std::nullopt;
  const int64_t count = channels_of(graph, node.outputs[output]);
  if (node.op->name == "TakeChannels") {
    move.channels = node.ints_attr("channels");
  } else if (node.op->name == "Concat") {
    if (normal_axis(node, node.int_attr("axis", 1), 4) != 1) return std::nullopt;
    move.channels = run(0, count);
  } else if (node.op->name == "Gather") {
    const auto channels = gathered(graph, node);
    if (!channels) return std::nullopt;
    move.channels = *channels;
  } else {
    const auto first = first_channel(graph, node, output);
    if (!first) return std::nullopt;
    move.channels = run(*first, count);
  }
  return move;
}

ChannelMove through_producers(const Graph& graph, ChannelMove move, int32_t block) {
  for (size_t i = 0; i < move.images.size();) {
    const ValueId image = move.images[i];
    const NodeId producer = graph.value(image).producer;
    std::optional<ChannelMove> inner;
    if (producer != kNone && read_once(graph, image)) {
      const Node& node = graph.node(producer);
      const auto output = static_cast<size_t>(std::ranges::find(node.outputs, image) - node.outputs.begin());
      inner = channel_move(graph, node, output);
    }
    if (inner) {
      ChannelMove all = composed(graph, move, i, *inner);
      if (sources(graph, all, block) <= kMaxSources) {
        move = std::move(all);
        i = 0;
        continue;
      }
    }
    ++i;
  }
  return move;
}

}  // namespace kilter
