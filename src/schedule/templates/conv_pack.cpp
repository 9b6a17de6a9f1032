// Packed constants of convolutions: weights in the order of a nest, biases, and the starts of integer sums.

#include <algorithm>
#include <cstring>

#include "schedule/templates/conv_core.h"

namespace kilter {

int64_t packed_bytes(const ConvNest& nest, int64_t vectors, int32_t lanes) {
  return nest.groups * (nest.out_blocks / vectors) * nest.panel_elems(vectors, lanes) * nest.operands.bytes();
}

namespace {

/// Nullopt if groups are merged, or if groups of multiplicands overlap, in a row of a plain image.
std::optional<Gather> gather_of(const ConvNest& n, const ConvTile& tile, int32_t lanes) {
  const int64_t group = n.operands.group, width = tile.vectors * lanes, taps = n.taps();
  if (n.merged > 1 || (n.in_block == 1 && group > 1) || n.weights_first != 0) return std::nullopt;
  enum : int32_t { kGroup, kOut, kIn, kRow, kColumn };
  Gather made{{{n.groups, n.out_channels * n.in_channels * taps},
               {n.out_channels, n.in_channels * taps},
               {n.in_channels, taps},
               {n.kernel_h, n.kernel_w},
               {n.kernel_w, 1}},
              {{n.groups, kGroup, 1},
               {n.out_blocks / tile.vectors, kOut, width},
               {n.in_blocks(), kIn, n.in_block},
               {n.kernel_h, kRow, 1},
               {n.row_steps(), kColumn, 1},
               {n.step_elems() / group, kIn, group},
               {width, kOut, 1}}};
  if (group > 1) made.loops.push_back({group, kIn, 1});
  return made;
}

}  // namespace

Packing pack_direct(const Task& task, ValueId weights, const ConvNest& nest, const ConvTile& tile, int32_t lanes) {
  const DType type = nest.operands.weights();
  const int64_t elems = packed_bytes(nest, tile.vectors, lanes) / size_bytes(type);
  std::string form = fmt::format("direct vectors={} block={} lanes={}", tile.vectors, nest.in_block, lanes);
  if (nest.merged > 1) form += fmt::format(" groups={}x{}", nest.groups, nest.merged);
  if (type != DType::f32) form += fmt::format(" {}", name(type));
  if (nest.operands.type == DType::i16) form += " pairs";
  if (auto gather = gather_of(nest, tile, lanes)) {
    Packing made = packed_by(std::move(*gather), weights, std::move(form), type, *task.operand(weights).constant);
    require(made.elems == elems, "the weights of a convolution: packed {} elements, its nest has {}", made.elems,
            elems);
    return made;
  }
  const auto fill = [w = *task.operand(weights).constant, n = nest, tile, lanes](std::byte* to) {
    const float* from = w.data<float>();
    const int64_t in = n.in_channels / n.merged;
    const auto at = [&](int64_t g, int64_t k, int64_t ch, int64_t r, int64_t s) {
      return from[(((g * n.out_channels + k) * in + ch % in) * n.kernel_h + r) * n.kernel_w + s];
    };
    if (n.operands.type == DType::bf16) return pack_weights(n, tile, lanes, reinterpret_cast<BFloat16*>(to), at);
    if (n.operands.integers()) return pack_weights(n, tile, lanes, reinterpret_cast<int8_t*>(to), at);
    if (n.operands.type == DType::f16) return pack_weights(n, tile, lanes, reinterpret_cast<Half*>(to), at);
    pack_weights(n, tile, lanes, reinterpret_cast<float*>(to), at);
  };
  return {weights, std::move(form), type, elems, fill};
}

Buf bias_of(Emitter& e, const Node& conv, int32_t lanes, std::string name) {
  if (conv.input(2) == kNone) return {};
  const Tensor& dense = *e.task().operand(conv.input(2)).constant;
  Tensor padded(dense.dtype(), {ceil_div(dense.elems(), lanes) * lanes});
  std::copy_n(dense.raw(), dense.bytes(), padded.raw());
  return e.constant(std::move(padded), std::move(name));
}

Buf start_of(Emitter& e, const Node& conv, const Multiplicands& operands, const TensorType& x, int32_t lanes,
             const std::string& prefix) {
  if (!operands.integers()) return bias_of(e, conv, lanes, prefix + "bias");
  const int64_t zero = x.layout.zero;
  if (zero == 0) return {};
  const ValueId weights = conv.inputs[1];
  const Tensor& w = *e.task().operand(weights).constant;
  const int64_t outputs = w.shape()[0];
  const auto fill = [w, zero, outputs](std::byte* to) {
    const int64_t depth = w.elems() / outputs;
    const float* from = w.data<float>();
    for (int64_t k = 0; k < outputs; ++k) {
      int64_t sum = 0;
      for (int64_t i = 0; i < depth; ++i) sum += static_cast<int64_t>(*from++);
      reinterpret_cast<int32_t*>(to)[k] = static_cast<int32_t>(-zero * sum);
    }
  };
  return e.constant(
      {weights, fmt::format("sums zero={} lanes={}", zero, lanes), DType::i32, ceil_div(outputs, lanes) * lanes, fill},
      prefix + "start");
}

}  // namespace kilter
