#include "ops/support/window.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <string>

#include "base/align.h"
#include "ops/op.h"

namespace kilter {
namespace {

/// Attribute values and extents stay below this, so that the product of two fits in 64 bits.
constexpr int64_t kMaxExtent = int64_t{1} << 30;

int64_t product_of(const std::vector<int64_t>& extents) {
  return std::accumulate(extents.begin(), extents.end(), int64_t{1}, std::multiplies<>());
}

std::vector<int64_t> per_axis(const Node& node, std::string_view key, size_t count, int64_t fallback, int64_t least) {
  std::vector<int64_t> values = node.ints_attr(key);
  if (values.empty()) values.assign(count, fallback);
  if (values.size() != count) {
    node_error(node, fmt::format("attribute {} has {} entries, expected {}", key, values.size(), count));
  }
  for (const int64_t value : values) {
    if (value < least || value > kMaxExtent) {
      node_error(node,
                 fmt::format("attribute {} contains {}; legal values are {} to {}", key, value, least, kMaxExtent));
    }
  }
  return values;
}

enum class AutoPad { none, same_upper, same_lower, valid };

AutoPad auto_pad_of(const Node& node) {
  const std::string text = node.string_attr("auto_pad", "NOTSET");
  if (text == "NOTSET" || text.empty()) return AutoPad::none;
  if (text == "SAME_UPPER") return AutoPad::same_upper;
  if (text == "SAME_LOWER") return AutoPad::same_lower;
  if (text == "VALID") return AutoPad::valid;
  node_error(
      node, fmt::format("attribute auto_pad is '{}'; legal values are NOTSET, SAME_UPPER, SAME_LOWER and VALID", text));
}

/// Returns everything except padding and output extents.
Window basics(const Node& node, const Shape& x, std::vector<int64_t> kernel) {
  Window window;
  window.in.assign(x.begin() + 2, x.end());
  window.kernel = std::move(kernel);
  const size_t rank = window.rank();
  window.strides = per_axis(node, "strides", rank, 1, 1);
  window.dilations = per_axis(node, "dilations", rank, 1, 1);
  window.pads_begin.assign(rank, 0);
  window.pads_end.assign(rank, 0);
  window.out.assign(rank, 0);
  for (size_t a = 0; a < rank; ++a) {
    if (window.kernel[a] < 1 || window.kernel[a] > kMaxExtent || window.in[a] > kMaxExtent) {
      node_error(node,
                 fmt::format("spatial axis {} has kernel {} over {} elements; legal values are kernels of 1 to {}", a,
                             window.kernel[a], window.in[a], kMaxExtent));
    }
  }
  return window;
}

void read_pads(const Node& node, Window& window) {
  const size_t rank = window.rank();
  const std::vector<int64_t> pads = per_axis(node, "pads", 2 * rank, 0, 0);
  window.pads_begin.assign(pads.begin(), pads.begin() + static_cast<int64_t>(rank));
  window.pads_end.assign(pads.begin() + static_cast<int64_t>(rank), pads.end());
}

void split_pad(Window& window, size_t axis, int64_t total, bool more_at_end) {
  total = std::max<int64_t>(total, 0);
  const int64_t less = total / 2;
  window.pads_begin[axis] = more_at_end ? less : total - less;
  window.pads_end[axis] = total - window.pads_begin[axis];
}

/// Computes the padding and output extents of a window that slides over the input.
void slide(const Node& node, Window& window, bool ceil_mode) {
  const AutoPad mode = auto_pad_of(node);
  if (mode == AutoPad::none) read_pads(node, window);
  for (size_t a = 0; a < window.rank(); ++a) {
    const int64_t stride = window.strides[a];
    if (mode == AutoPad::same_upper || mode == AutoPad::same_lower) {
      window.out[a] = ceil_div(window.in[a], stride);
      split_pad(window, a, (window.out[a] - 1) * stride + window.span(a) - window.in[a], mode == AutoPad::same_upper);
      continue;
    }
    const int64_t free = window.in[a] + window.pads_begin[a] + window.pads_end[a] - window.span(a);
    if (free < 0) {
      node_error(node, fmt::format("spatial axis {} has {} elements and padding {}+{}, less than the window of {} "
                                   "(kernel {}, dilation {})",
                                   a, window.in[a], window.pads_begin[a], window.pads_end[a], window.span(a),
                                   window.kernel[a], window.dilations[a]));
    }
    window.out[a] = free / stride + 1;
    if (!ceil_mode || mode == AutoPad::valid) continue;
    window.out[a] = ceil_div(free, stride) + 1;
    // A window that would start in the padding at the end is dropped.
    if ((window.out[a] - 1) * stride >= window.in[a] + window.pads_begin[a]) --window.out[a];
  }
}

std::vector<int64_t> filter_kernel(const Node& node, const Shape& x, const Shape& w) {
  if (x.size() < 3 || w.size() != x.size()) {
    node_error(node, fmt::format("expected an input [N, C, d0, ...] and a filter of the same rank, got {} and {}",
                                 text(x), text(w)));
  }
  std::vector<int64_t> kernel(w.begin() + 2, w.end());
  const std::vector<int64_t> declared = node.ints_attr("kernel_shape", kernel);
  if (declared != kernel) {
    node_error(node, fmt::format("attribute kernel_shape is {}, but the filter has shape {}", text(declared), text(w)));
  }
  return kernel;
}

}  // namespace

int64_t Window::kernel_elems() const { return product_of(kernel); }
int64_t Window::in_elems() const { return product_of(in); }
int64_t Window::out_elems() const { return product_of(out); }

Window conv_window(const Node& node, const Shape& x, const Shape& w) {
  Window window = basics(node, x, filter_kernel(node, x, w));
  slide(node, window, false);
  return window;
}

Window conv_transpose_window(const Node& node, const Shape& x, const Shape& w) {
  Window window = basics(node, x, filter_kernel(node, x, w));
  const size_t rank = window.rank();
  const AutoPad mode = auto_pad_of(node);
  const std::vector<int64_t> extra = per_axis(node, "output_padding", rank, 0, 0);
  const bool fixed = !node.ints_attr("output_shape").empty();
  const std::vector<int64_t> shape = per_axis(node, "output_shape", rank, 0, 0);
  const bool same = mode == AutoPad::same_upper || mode == AutoPad::same_lower;
  if (!fixed && mode == AutoPad::none) read_pads(node, window);
  for (size_t a = 0; a < rank; ++a) {
    const int64_t full = window.strides[a] * (window.in[a] - 1) + extra[a] + window.span(a);
    if (fixed || same) {
      window.out[a] = fixed ? shape[a] : window.in[a] * window.strides[a];
      split_pad(window, a, full - window.out[a], mode == AutoPad::same_upper);
    } else {
      window.out[a] = full - window.pads_begin[a] - window.pads_end[a];
    }
    if (window.out[a] < 0) {
      node_error(node, fmt::format("spatial axis {} has {} elements, from which padding of {}+{} cannot be removed", a,
                                   full, window.pads_begin[a], window.pads_end[a]));
    }
  }
  return window;
}

Window pool_window(const Node& node, const Shape& x) {
  if (x.size() < 3) node_error(node, fmt::format("expected an input [N, C, d0, ...], got {}", text(x)));
  std::vector<int64_t> kernel = node.ints_attr("kernel_shape");
  if (kernel.size() != x.size() - 2) {
    node_error(node, fmt::format("attribute kernel_shape has {} entries, expected {} for an input of shape {}",
                                 kernel.size(), x.size() - 2, text(x)));
  }
  Window window = basics(node, x, std::move(kernel));
  slide(node, window, node.int_attr("ceil_mode", 0) != 0);
  return window;
}

Window global_window(const Node& node, const Shape& x) {
  if (x.size() < 3) node_error(node, fmt::format("expected an input [N, C, d0, ...], got {}", text(x)));
  Window window;
  window.in.assign(x.begin() + 2, x.end());
  window.kernel = window.in;
  window.strides.assign(window.rank(), 1);
  window.dilations = window.strides;
  window.pads_begin.assign(window.rank(), 0);
  window.pads_end = window.pads_begin;
  window.out.assign(window.rank(), 1);
  return window;
}

Attrs window_attrs(const Window& window) {
  std::vector<int64_t> pads = window.pads_begin;
  pads.insert(pads.end(), window.pads_end.begin(), window.pads_end.end());
  return {
      {"kernel_shape", window.kernel}, {"strides", window.strides}, {"dilations", window.dilations}, {"pads", pads}};
}

Attrs pool_attrs(const Node& node, const Window& window) {
  Attrs attrs = window_attrs(window);
  // ceil_mode has no meaning with auto_pad.
  if (auto_pad_of(node) == AutoPad::none) attrs["ceil_mode"] = node.int_attr("ceil_mode", 0);
  if (node.op->name == "AveragePool") attrs["count_include_pad"] = node.int_attr("count_include_pad", 0);
  return attrs;
}

std::vector<int64_t> output_padding(const Window& window) {
  std::vector<int64_t> more;
  for (size_t a = 0; a < window.rank(); ++a) {
    const int64_t spread = (window.in[a] - 1) * window.strides[a] + window.span(a);
    more.push_back(window.out[a] - (spread - window.pads_begin[a] - window.pads_end[a]));
  }
  return more;
}

Range inside(int64_t count, int64_t stride, int64_t offset, int64_t limit) {
  Range range;
  range.begin = offset >= 0 ? 0 : std::min(count, (-offset + stride - 1) / stride);
  range.end = limit <= offset ? range.begin : std::min(count, (limit - offset - 1) / stride + 1);
  range.end = std::max(range.begin, range.end);
  return range;
}

void rows_under(const Window& window, std::span<const int64_t> outer, std::vector<WindowRow>& rows) {
  const size_t axes = window.rank() - 1;
  rows.assign(1, {});
  std::vector<WindowRow> next;
  for (size_t a = 0; a < axes; ++a) {
    next.clear();
    for (const WindowRow& row : rows) {
      for (int64_t tap = 0; tap < window.kernel[a]; ++tap) {
        const int64_t source = window.source(a, outer[a], tap);
        if (source < 0 || source >= window.in[a]) continue;
        next.push_back({row.input * window.in[a] + source, row.filter * window.kernel[a] + tap});
      }
    }
    rows.swap(next);
  }
  for (WindowRow& row : rows) {
    row.input *= window.in[axes];
    row.filter *= window.kernel[axes];
  }
}

}  // namespace kilter
