// Sliding windows of convolutions and poolings: strides, dilations and padding resolved from attributes and shapes.
// Used by shape rules, reference kernels and schedules.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/graph.h"

namespace kilter {

/// All vectors have one entry per spatial axis (x: [N, C, d0, d1, ...]). Along an axis, tap k of output o reads input o
/// * stride + k * dilation - pad_begin. For a transposed convolution, tap k of input i adds to output i * stride + k *
/// dilation - pad_begin. Everything outside the extents is padding.
struct Window {
  std::vector<int64_t> kernel;
  std::vector<int64_t> strides;
  std::vector<int64_t> dilations;
  std::vector<int64_t> pads_begin;  ///< auto_pad already resolved
  std::vector<int64_t> pads_end;    ///< as declared; with ceil_mode the last window may extend beyond it
  std::vector<int64_t> in;          ///< spatial extents of the input
  std::vector<int64_t> out;         ///< spatial extents of the output

  size_t rank() const { return kernel.size(); }
  /// Returns the number of input elements from the first tap to the last along an axis.
  int64_t span(size_t axis) const { return (kernel[axis] - 1) * dilations[axis] + 1; }
  int64_t kernel_elems() const;
  int64_t in_elems() const;
  int64_t out_elems() const;
  /// Returns the input coordinate of a tap, which is padding if < 0 or >= in[axis].
  int64_t source(size_t axis, int64_t output, int64_t tap) const {
    return output * strides[axis] + tap * dilations[axis] - pads_begin[axis];
  }
};

/// Returns the window of a convolution, with the kernel from w [M, C / group, k0, k1, ...]. Throws bad_model for
/// illegal attributes or extents.
Window conv_window(const Node& node, const Shape& x, const Shape& w);
/// Returns the window of a transposed convolution, with the kernel from w [C, M / group, k0, k1, ...] and with
/// auto_pad, output_shape and output_padding resolved. Throws bad_model.
Window conv_transpose_window(const Node& node, const Shape& x, const Shape& w);
/// Returns the window of a pooling, with the kernel from attribute kernel_shape and with ceil_mode resolved. Throws
/// bad_model.
Window pool_window(const Node& node, const Shape& x);
/// Returns the window that covers all spatial axes of x once, for global pooling.
Window global_window(const Node& node, const Shape& x);

/// Returns the attributes of a node that slides this window: kernel_shape, strides, dilations, pads.
Attrs window_attrs(const Window& window);
/// Returns the attributes of a pool like `node` that slides `window` instead, with the node's ceil_mode and
/// count_include_pad.
Attrs pool_attrs(const Node& node, const Window& window);
/// Returns, per axis, by how much the output of a transposed convolution exceeds the extent that kernel, strides and
/// pads give.
std::vector<int64_t> output_padding(const Window& window);

/// The positions along an axis that keep `position * stride + offset` inside [0, limit): [begin, end) within [0,
/// count).
struct Range {
  int64_t begin = 0;
  int64_t end = 0;
};
Range inside(int64_t count, int64_t stride, int64_t offset, int64_t limit);

/// A row (all axes but the last fixed) of the input plane and of the filter that an output row reads, as the element
/// offsets of their first elements.
struct WindowRow {
  int64_t input = 0;
  int64_t filter = 0;
};
/// Returns the rows inside the input under the output row whose leading spatial indices are `outer` (rank - 1 of them).
void rows_under(const Window& window, std::span<const int64_t> outer, std::vector<WindowRow>& rows);

}  // namespace kilter
