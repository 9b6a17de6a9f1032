#include "passes/channel_moves.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "graph/values.h"
#include "ops/support/builder.h"
#include "ops/support/channels.h"
#include "ops/support/views.h"
#include "passes/match.h"

namespace kilter {
namespace {

constexpr size_t kMaxParts = 256;  ///< operands of one move: larger moves are not of images, and they are slow to
                                   ///< compose
constexpr size_t kMaxSources = 6;  ///< most source vectors per vector of a composed move

int64_t channel_count(const Graph& graph, ValueId image) { return graph.type(image).shape[1]; }

bool image(const Graph& graph, ValueId v) {
  if (v == kNone || constant_of(graph, v) != nullptr) return false;
  const TensorType& t = graph.type(v);
  return t.dtype == DType::f32 && t.shape.size() == 4 && elems(t.shape) > 0;
}

std::vector<int64_t> run(int64_t first, int64_t count) {
  std::vector<int64_t> all(static_cast<size_t>(count));
  std::iota(all.begin(), all.end(), first);
  return all;
}

/// The constant channel indices of a Gather; negative ones count from the end.
std::optional<std::vector<int64_t>> gathered(const Graph& graph, const Node& node) {
  const Tensor* indices = constant_of(graph, node.inputs[1]);
  if (indices == nullptr || indices->shape().size() != 1 || normal_axis(node, node.int_attr("axis", 0), 4) != 1)
    return std::nullopt;
  const int64_t extent = channel_count(graph, node.inputs[0]);
  std::vector<int64_t> channels = indices->ints();
  for (int64_t& c : channels) {
    if (c < 0) c += extent;
    if (c < 0 || c >= extent) return std::nullopt;
  }
  return channels;
}

/// The largest number of vectors of blocked images from which one vector of the result is assembled.
size_t sources(const Graph& graph, const ChannelMove& move, int32_t block) {
  std::vector<ChannelOf> vectors = channels_of(graph, move.images);
  for (ChannelOf& v : vectors) v.channel /= block;
  size_t most = 0;
  for (size_t k = 0; k < move.channels.size();) {
    std::set<ChannelOf> read;
    const size_t end = std::min(move.channels.size(), k + static_cast<size_t>(block));
    for (; k < end; ++k) read.insert(vectors[static_cast<size_t>(move.channels[k])]);
    most = std::max(most, read.size());
  }
  return most;
}

/// Returns `move` with image `i` replaced by the images that `inner` selects from. Leaves out images of which no
/// channel is selected any more.
ChannelMove composed(const Graph& graph, const ChannelMove& move, size_t i, const ChannelMove& inner) {
  ChannelMove all;
  const std::vector<ChannelOf> outer = channels_of(graph, move.images), deeper = channels_of(graph, inner.images);
  std::vector<std::pair<ValueId, int64_t>> taken;
  for (const int64_t c : move.channels) {
    const ChannelOf& at = outer[static_cast<size_t>(c)];
    std::pair from(move.images[at.image], at.channel);
    if (from.first == move.images[i]) {
      const ChannelOf& below = deeper[static_cast<size_t>(inner.channels[static_cast<size_t>(at.channel)])];
      from = {inner.images[below.image], below.channel};
    }
    if (std::ranges::find(all.images, from.first) == all.images.end()) all.images.push_back(from.first);
    taken.push_back(from);
  }
  std::map<ValueId, int64_t> first;
  int64_t count = 0;
  for (const ValueId v : all.images) first[v] = std::exchange(count, count + channel_count(graph, v));
  for (const auto& [v, channel] : taken) all.channels.push_back(first[v] + channel);
  return all;
}

}  // namespace

std::optional<ChannelMove> channel_move(const Graph& graph, const Node& node, size_t output) {
  if (output >= node.outputs.size() || !image(graph, node.outputs[output])) return std::nullopt;
  if (std::max(node.inputs.size(), node.outputs.size()) > kMaxParts) return std::nullopt;
  const bool joins = node.op->movement == Movement::concat, takes = node.op->family == Family::channels;
  const bool many = joins || takes;
  ChannelMove move{many ? node.inputs : std::vector<ValueId>{node.inputs[0]}, {}};
  if (!std::ranges::all_of(move.images, [&](ValueId v) { return image(graph, v); })) return std::nullopt;
  const int64_t count = channel_count(graph, node.outputs[output]);
  if (takes) {
    move.channels = node.ints_attr("channels");
  } else if (joins) {
    if (normal_axis(node, node.int_attr("axis", 1), 4) != 1) return std::nullopt;
    move.channels = run(0, count);
  } else if (node.op->addressing == Addressing::axis) {
    const auto channels = gathered(graph, node);
    if (!channels) return std::nullopt;
    move.channels = *channels;
  } else {
    const auto first = first_channel(graph, view(graph, node), output);
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
