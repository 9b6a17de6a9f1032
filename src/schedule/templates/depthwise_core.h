// What kernels of depthwise convolutions share, and of those with few channels a group: geometry, packed weights, and
// one row of outputs from a register tile over the pixels of the row, with vectors over channels. Groups of several
// channels lie within a vector; one of each group's channels at a time is spread over the group by a shuffle.
#pragma once

#include <functional>

#include "ops/support/window.h"
#include "schedule/emit.h"

namespace kilter {

/// `each` input and as many output channels per group; both lie in blocks of one vector, which whole groups fill.
struct DepthwiseNest {
  int64_t n = 1, blocks = 0;
  int64_t each = 1;
  int64_t kernel_h = 1, kernel_w = 1, dilation_h = 1, dilation_w = 1, step_h = 1, step_w = 1;
  int64_t first_h = 0, first_w = 0;  ///< input pixel under tap (0, 0) of output pixel (0, 0): minus the padding
  int64_t out_h = 1, out_w = 1;

  int64_t taps() const { return kernel_h * kernel_w; }
  /// Multiply-adds of one vector of outputs, and vectors of weights of a block.
  int64_t products() const { return taps() * each; }
  /// Input rows from the first tap to the last.
  int64_t reach() const { return (kernel_h - 1) * dilation_h + 1; }
};

/// The nest of a convolution of `x` with filters `w` to `y`; rejects groups that do not divide a vector and other types
/// than f32. Layouts are not looked at.
Answer<DepthwiseNest> depthwise_nest(const Node& conv, const TensorType& x, const TensorType& w, const TensorType& y,
                                     int32_t lanes);

/// Most pixels of a row tile; of groups of several channels fewer, as what is spread takes registers, too (measured).
int64_t most_row_pixels(const DepthwiseNest& nest, const TargetLimits& limits);
/// Pixels of a part of a row of `pixels`, in parts of at most `most` and as equal as they come.
int64_t equal_parts(int64_t pixels, int64_t most);
/// The row tile with least left over.
int64_t pick_row_tile(const DepthwiseNest& nest, const TargetLimits& limits);
/// Cycles of one row of one block of channels in tiles of `tile` pixels.
double row_cycles(const DepthwiseNest& nest, int64_t tile, const TargetLimits& limits);

/// Weights [channel][each][r][s] as [block][r][channel of the group][s][lane].
Tensor pack_depthwise(const Tensor& w, const DepthwiseNest& nest, int32_t lanes);

/// Where the rows that a row of outputs reads lie.
struct DepthwiseInput {
  Buf buf;
  int64_t pixel = 0;  ///< elements from a pixel to its right neighbour
  /// Called at the start of each tile with its first pixel: answers, for a row of taps, the element under tap (r, 0).
  std::function<std::function<Expr(const Expr& r)>(const Expr& w0)> tile;
};

struct DepthwiseBuffers {
  Buf weights;  ///< packed: see pack_depthwise
  Buf bias;     ///< one vector per block; id < 0 when there is none
};

/// Prefetches `count` vectors of weights from vector `first` of a block on, and its bias. They come from far, as a
/// network has read others since, and are too few for the hardware to follow them: to be called while what comes before
/// is computed.
void prefetch_weights(LoopBuilder& b, const DepthwiseNest& nest, const DepthwiseBuffers& buffers, const Expr& block,
                      const Expr& first, int64_t count, int32_t lanes);

/// Emits row `row` of block `block` of image `n` of the task's anchor, with the task's epilogue.
void emit_depthwise_row(Emitter& e, const DepthwiseNest& nest, int64_t tile, const DepthwiseInput& input,
                        const DepthwiseBuffers& buffers, const Expr& n, const Expr& block, const Expr& row);

}  // namespace kilter
