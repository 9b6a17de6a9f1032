// The convolution used by the reference kernels of Conv, ConvInteger and QLinearConv.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "ops/op.h"
#include "ops/support/iterate.h"
#include "ops/support/window.h"

namespace kilter {

/// Extents of a convolution: x [batch, channels, in...], w [filters, channels / groups, kernel...].
struct ConvShape {
  int64_t batch = 0;
  int64_t channels = 0;
  int64_t filters = 0;
  int64_t groups = 1;
  Window window;

  Shape out() const {
    Shape shape = {batch, filters};
    shape.insert(shape.end(), window.out.begin(), window.out.end());
    return shape;
  }
  /// Counts one multiply-add as 2 operations.
  int64_t flops() const { return 2 * elems(out()) * (channels / groups) * window.kernel_elems(); }
};

/// The attributes of a convolution, which its quantised forms share.
inline std::vector<AttrSpec> conv_attrs() {
  return {{"auto_pad", "string", "NOTSET"}, {"dilations", "ints", ""}, {"group", "int", "1"},
          {"kernel_shape", "ints", ""},     {"pads", "ints", ""},      {"strides", "ints", ""}};
}

/// Checks the ranks, channels and groups of a convolution. Throws bad_model.
ConvShape conv_shape(const Node& node, const Shape& x, const Shape& w);

/// Calls emit(filter, offset, row) for every row of the output. `offset` is the position of its first element in [N, M,
/// out...]. `row` contains the sums of x * w over channels and taps, in the order channel, tap. Padding adds nothing.
template <class Acc, class Emit>
void conv_rows(const ConvShape& shape, const Acc* x, const Acc* w, Emit emit) {
  const Window& win = shape.window;
  const size_t last = win.rank() - 1;
  const int64_t per_group = shape.channels / shape.groups;
  const int64_t plane = win.in_elems();
  const int64_t taps = win.kernel_elems();
  const int64_t width = win.out[last];
  const int64_t stride = win.strides[last];
  std::vector<Range> ranges;
  for (int64_t tap = 0; tap < win.kernel[last]; ++tap) {
    ranges.push_back(inside(width, stride, win.source(last, 0, tap), win.in[last]));
  }
  std::vector<Acc> sums(static_cast<size_t>(width));
  std::vector<WindowRow> rows;
  const auto add_channel = [&](const Acc* image, const Acc* filter) {
    for (const WindowRow& row : rows) {
      for (int64_t tap = 0; tap < win.kernel[last]; ++tap) {
        const Acc weight = filter[row.filter + tap];
        const Range range = ranges[static_cast<size_t>(tap)];
        if (range.begin >= range.end) continue;
        const Acc* source = image + row.input + win.source(last, range.begin, tap);
        Acc* sum = sums.data() + range.begin;
        const int64_t count = range.end - range.begin;
        if (stride == 1) {
          for (int64_t o = 0; o < count; ++o) sum[o] += weight * source[o];
        } else {
          for (int64_t o = 0; o < count; ++o) sum[o] += weight * source[o * stride];
        }
      }
    }
  };
  for_each_index({win.out.begin(), win.out.end() - 1}, [&](std::span<const int64_t> outer) {
    rows_under(win, outer, rows);
    int64_t row_index = 0;
    for (size_t a = 0; a < last; ++a) row_index = row_index * win.out[a] + outer[a];
    for (int64_t n = 0; n < shape.batch; ++n) {
      for (int64_t m = 0; m < shape.filters; ++m) {
        const int64_t first = m / (shape.filters / shape.groups) * per_group;
        std::fill(sums.begin(), sums.end(), Acc{});
        for (int64_t c = 0; c < per_group; ++c) {
          add_channel(x + (n * shape.channels + first + c) * plane, w + (m * per_group + c) * taps);
        }
        emit(m, (n * shape.filters + m) * win.out_elems() + row_index * width, std::span<const Acc>(sums));
      }
    }
  });
}

}  // namespace kilter
