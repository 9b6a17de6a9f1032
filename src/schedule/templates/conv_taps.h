// Taps of dilated convolutions in the padding. If much of a window lies there, direct convolution computes, for each
// tile of pixels, only the rows and columns of taps that read the image for some pixel of the tile.
#pragma once

#include "schedule/templates/conv_core.h"

namespace kilter {

/// Taps [first, last) along one dimension. T is int64_t or Expr.
template <class T>
struct TapRange {
  T first, last;
};

/// Along one dimension, tap k at output position i reads position i * step + first + k * dilation of an image that has
/// `in` positions.
struct TapDim {
  int64_t kernel = 1, dilation = 1, step = 1, first = 0, in = 1;
};

/// The taps that read the image at some of the output positions [at, at + count).
template <class T>
TapRange<T> taps_read(const TapDim& d, const T& at, int64_t count) {
  using std::max, std::min;
  const T begin = at * T(d.step) + T(d.first), end = begin + T((count - 1) * d.step);
  return {max(T(0), T(d.dilation - 1) - end) / T(d.dilation),
          min(T(d.kernel), max(T(0), T(d.in - 1 + d.dilation) - begin) / T(d.dilation))};
}

inline TapDim tap_rows(const ConvNest& n) { return {n.kernel_h, n.dilation_h, n.step_h, n.first_h, n.in_h}; }
inline TapDim tap_columns(const ConvNest& n) { return {n.kernel_w, n.dilation_w, n.step_w, n.first_w, n.in_w}; }

/// Lets a nest over an image of in_h x in_w pixels, stored in blocks of channels, skip taps if that saves at least a
/// quarter of the products.
void skip_padding(ConvNest& nest, int64_t in_h, int64_t in_w);
/// The share of its products that a nest computes with a tile; 1 unless it skips taps.
double read_share(const ConvNest& nest, const ConvTile& tile);

}  // namespace kilter
