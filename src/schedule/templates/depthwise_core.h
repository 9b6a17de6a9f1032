// Shared parts of kernels for depthwise convolutions and for those with few channels per group: geometry, packed
// weights, and one row of outputs from a register tile over the row's pixels, with vectors over channels. A group of
// several channels is within one vector; shuffles copy one channel of each group at a time to all lanes of its group.
#pragma once

#include <functional>

#include "base/align.h"
#include "ops/support/window.h"
#include "schedule/emit.h"
#include "schedule/model/register_tile.h"

namespace kilter {

/// If operands are bytes, `operands.group` neighbouring taps of a row are multiplied at a time. A window of this number
/// of pixels serves `sharing()` neighbouring outputs; the weights are shifted for each of them.
///
/// A group has `each` input channels and as many output channels. Both are stored in blocks of one vector, and whole
/// groups fill a block.
struct DepthwiseNest {
  int64_t n = 1, blocks = 0;
  int64_t each = 1;
  int64_t kernel_h = 1, kernel_w = 1, dilation_h = 1, dilation_w = 1, step_h = 1, step_w = 1;
  int64_t first_h = 0, first_w = 0;  ///< input pixel under tap (0, 0) of output pixel (0, 0): the negated padding
  int64_t out_h = 1, out_w = 1;
  bool overlap = false;  ///< the last tile of a row overlaps the one before it (Task::open)
  Multiplicands operands = {};

  int64_t taps() const { return kernel_h * kernel_w; }
  /// Multiply-adds per vector of outputs.
  int64_t products() const { return taps() * each; }
  /// Windows per row of taps.
  int64_t windows() const { return ceil_div(kernel_w, operands.group); }
  int64_t sharing() const { return (windows() * operands.group - kernel_w) / step_w + 1; }
  /// Vectors of weights per block, each of one group for every lane.
  int64_t weight_vectors() const { return kernel_h * each * windows() * sharing(); }
  /// Input rows from the first tap through the last.
  int64_t reach() const { return (kernel_h - 1) * dilation_h + 1; }
};

/// The nest of a convolution of `x` with filters `w` to `y`. Rejects groups that do not divide a vector, and types
/// other than f32. Ignores layouts.
Result<DepthwiseNest> depthwise_nest(const Node& conv, const TensorType& x, const TensorType& w, const TensorType& y,
                                     int32_t lanes);
/// Integers, if `x` is stored as bytes, the results are sums of integers, and the target has an instruction for them;
/// otherwise f32.
Multiplicands depthwise_operands(const DepthwiseNest& nest, const TensorType& x, const Tensor& w, const TensorType& y,
                                 const CpuLimits& limits);

/// The largest number of pixels in a row tile. Groups of several channels get fewer, since spread channels also need
/// registers (measured).
int64_t most_row_pixels(const DepthwiseNest& nest, const CpuLimits& limits);
/// Pixels per part if a row of `pixels` is split into parts of at most `most` that are as equal as possible.
int64_t equal_parts(int64_t pixels, int64_t most);
/// The row tile that leaves the smallest remainder.
int64_t pick_row_tile(const DepthwiseNest& nest, const CpuLimits& limits);
/// Cycles for one row of one block of channels in tiles of `tile` pixels.
double row_cycles(const DepthwiseNest& nest, int64_t tile, const CpuLimits& limits);

/// Packs weights [channel][each][r][s] as [block][r][channel of the group][s][lane], bytes as [block][r][window][output
/// that shares it][lane][tap of the window].
Tensor pack_depthwise(const Tensor& w, const DepthwiseNest& nest, int32_t lanes);

/// The location of the input rows that a row of outputs reads.
struct DepthwiseInput {
  Buf buf;
  int64_t pixel = 0;  ///< elements from a pixel to its right neighbour; a block if operands are bytes
  /// Called at the start of each tile with its first pixel. Returns a function from a row of taps r to the element
  /// under tap (r, 0).
  std::function<std::function<Expr(const Expr& r)>(const Expr& w0)> tile;
};

struct DepthwiseBuffers {
  Buf weights;  ///< packed by pack_depthwise()
  Buf bias;     ///< initial values of sums, one vector per block; id < 0 if they are 0
};

/// Prefetches `count` vectors of a block's weights from vector `first` on, and its bias. The weights are no longer in
/// the near caches, because the network has read others since, and they are too few for the hardware prefetcher to
/// follow. Call this while the preceding work is computed.
void prefetch_weights(LoopBuilder& b, const DepthwiseNest& nest, const DepthwiseBuffers& buffers, const Expr& block,
                      const Expr& first, int64_t count, const CpuLimits& limits);

/// Emits row `row` of block `block` of image `n` of the anchor, with the task's epilogue.
void emit_depthwise_row(Emitter& e, const DepthwiseNest& nest, int64_t tile, const DepthwiseInput& input,
                        const DepthwiseBuffers& buffers, const Expr& n, const Expr& block, const Expr& row);

}  // namespace kilter
