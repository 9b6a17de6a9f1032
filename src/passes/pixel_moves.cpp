#include "passes/pixel_moves.h"

#include <algorithm>
#include <array>

#include "graph/values.h"
#include "ops/support/builder.h"
#include "ops/support/regions.h"
#include "ops/support/take_pixels.h"

namespace kilter {
namespace {

bool image(const TensorType& t) { return t.dtype == DType::f32 && t.shape.size() == 4 && elems(t.shape) > 0; }

/// The input element that output element `at` copies; nullopt if it is filled in.
std::optional<int64_t> source(const std::vector<CopyRegion>& regions, int64_t at) {
  for (const CopyRegion& r : regions) {
    int64_t left = at - r.out_offset, from = r.in_offset;
    bool inside = left >= 0;
    for (size_t d = 0; d < r.extent.size() && inside; ++d) {  // dimensions in the output's order, outermost first
      const int64_t i = left / r.out_strides[d];
      inside = i < r.extent[d];
      left -= i * r.out_strides[d], from += i * r.in_strides[d];
    }
    if (inside && left == 0) return r.input == kNone ? std::nullopt : std::optional(from);
  }
  return std::nullopt;
}

/// The input index that each output index reads, for one dimension.
std::optional<std::vector<int64_t>> map_of(const std::vector<CopyRegion>& regions, const Shape& in, const Shape& out,
                                           size_t d) {
  std::vector<int64_t> map;
  const int64_t step = dense_strides(out)[d], unit = dense_strides(in)[d];
  for (int64_t i = 0; i < out[d]; ++i) {
    const auto from = source(regions, i * step);
    if (!from) return std::nullopt;
    map.push_back(*from / unit % in[d]);
  }
  return map;
}

}  // namespace

std::optional<PixelMove> pixel_move(const Graph& graph, const Node& node) {
  if (!node.op->separable || constant_of(graph, node.inputs[0]) != nullptr) return std::nullopt;
  const TensorType &x = graph.type(node.inputs[0]), &y = graph.type(node.outputs[0]);
  if (!image(x) || !image(y)) return std::nullopt;
  const auto regions = node.op->regions(view(graph, node), 0);
  if (!regions) return std::nullopt;
  std::array<std::vector<int64_t>, 4> maps;
  for (size_t d = 0; d < maps.size(); ++d) {
    auto map = map_of(*regions, x.shape, y.shape, d);
    if (!map || (d < 2 && runs_of(*map) != std::vector<int64_t>{0, 1, x.shape[d]})) return std::nullopt;
    maps[d] = std::move(*map);
  }
  return PixelMove{std::move(maps[2]), std::move(maps[3])};
}

}  // namespace kilter
