#include <algorithm>
#include <cmath>

#include "ops/support/conv_reference.h"
#include "ops/support/elementwise.h"

namespace kilter {
namespace {

struct DeformShape {
  ConvShape conv;
  int64_t offset_groups = 1;
};

DeformShape deform_shape(const Node& node, const Shape& x, const Shape& w, const Shape& offset, const Shape* mask) {
  DeformShape shape;
  shape.conv = conv_shape(node, x, w);
  if (x.size() != 4) {
    fail(ErrorKind::unsupported, "DeformConv '{}': input has shape {}; only [N, C, H, W] is supported", node.name,
         text(x));
  }
  shape.offset_groups = node.int_attr("offset_group", 1);
  const Window& window = shape.conv.window;
  const int64_t groups = shape.offset_groups;
  if (groups < 1 || x[1] % groups != 0) {
    node_error(node, fmt::format("offset_group={} does not divide {} channels", groups, x[1]));
  }
  const int64_t taps = window.kernel_elems();
  const Shape expected_offset = {x[0], groups * taps * 2, window.out[0], window.out[1]};
  const Shape expected_mask = {x[0], groups * taps, window.out[0], window.out[1]};
  if (offset != expected_offset || (mask != nullptr && *mask != expected_mask)) {
    node_error(node, fmt::format("offset and mask have shapes {} and {}, expected {} and {}", text(offset),
                                 mask == nullptr ? "none" : text(*mask), text(expected_offset), text(expected_mask)));
  }
  return shape;
}

void infer(InferContext& ctx) {
  check_types(Floats{}, ctx, 0);
  check_same_dtype(ctx);
  const DeformShape shape =
      deform_shape(ctx.node, ctx.shape(0), ctx.shape(1), ctx.shape(2), ctx.has(4) ? &ctx.shape(4) : nullptr);
  if (ctx.has(3) && ctx.shape(3) != Shape{shape.conv.filters}) {
    ctx.error(fmt::format("bias has shape {}, expected {}", text(ctx.shape(3)), shape.conv.filters));
  }
  ctx.set(0, ctx.dtype(0), shape.conv.out());
}

/// Samples a plane bilinearly. Elements outside count as 0.
double sample(const double* plane, const std::vector<int64_t>& extent, double y, double x) {
  const auto height = static_cast<double>(extent[0]);
  const auto width = static_cast<double>(extent[1]);
  if (!(y > -1 && y < height && x > -1 && x < width)) return 0;
  const double top = std::floor(y);
  const double left = std::floor(x);
  double sum = 0;
  for (int corner = 0; corner < 4; ++corner) {
    const double row = top + corner / 2;
    const double column = left + corner % 2;
    if (row < 0 || row >= height || column < 0 || column >= width) continue;
    const double weight = (1 - std::abs(y - row)) * (1 - std::abs(x - column));
    sum += weight * plane[static_cast<int64_t>(row) * extent[1] + static_cast<int64_t>(column)];
  }
  return sum;
}

/// Returns the samples of image n that all filters share: [channels, taps, positions].
std::vector<double> samples(const DeformShape& shape, const double* x, const double* offset, const double* mask) {
  const Window& window = shape.conv.window;
  const int64_t positions = window.out_elems();
  const int64_t taps = window.kernel_elems();
  const int64_t channels_per_group = shape.conv.channels / shape.offset_groups;
  std::vector<double> columns;
  for (int64_t c = 0; c < shape.conv.channels; ++c) {
    for (int64_t tap = 0; tap < taps; ++tap) {
      const int64_t entry = c / channels_per_group * taps + tap;
      for (int64_t p = 0; p < positions; ++p) {
        const int64_t row = window.source(0, p / window.out[1], tap / window.kernel[1]);
        const int64_t column = window.source(1, p % window.out[1], tap % window.kernel[1]);
        const double y = static_cast<double>(row) + offset[2 * entry * positions + p];
        const double at = static_cast<double>(column) + offset[(2 * entry + 1) * positions + p];
        const double factor = mask == nullptr ? 1.0 : mask[entry * positions + p];
        columns.push_back(factor * sample(x + c * window.in_elems(), window.in, y, at));
      }
    }
  }
  return columns;
}

void reference(ReferenceContext& ctx) {
  const DeformShape shape = deform_shape(ctx.node, ctx.in(0).shape(), ctx.in(1).shape(), ctx.in(2).shape(),
                                         ctx.has(4) ? &ctx.in(4).shape() : nullptr);
  const ConvShape& conv = shape.conv;
  const std::vector<double> x = load_doubles(ctx.in(0));
  const std::vector<double> w = load_doubles(ctx.in(1));
  const std::vector<double> offset = load_doubles(ctx.in(2));
  const std::vector<double> bias = ctx.has(3) ? load_doubles(ctx.in(3)) : std::vector<double>();
  const std::vector<double> mask = ctx.has(4) ? load_doubles(ctx.in(4)) : std::vector<double>();
  std::vector<double> y(static_cast<size_t>(ctx.out().elems()));
  const int64_t positions = conv.window.out_elems();
  const int64_t depth = conv.channels / conv.groups * conv.window.kernel_elems();
  for (int64_t n = 0; n < conv.batch; ++n) {
    const int64_t entries = shape.offset_groups * conv.window.kernel_elems() * positions;
    const std::vector<double> columns =
        samples(shape, x.data() + n * conv.channels * conv.window.in_elems(), offset.data() + 2 * n * entries,
                mask.empty() ? nullptr : mask.data() + n * entries);
    for (int64_t m = 0; m < conv.filters; ++m) {
      double* row = y.data() + (n * conv.filters + m) * positions;
      std::fill(row, row + positions, bias.empty() ? 0.0 : bias[static_cast<size_t>(m)]);
      const int64_t group = m / (conv.filters / conv.groups);
      for (int64_t k = 0; k < depth; ++k) {
        const double weight = w[static_cast<size_t>(m * depth + k)];
        const double* from = columns.data() + (group * depth + k) * positions;
        for (int64_t p = 0; p < positions; ++p) row[p] += weight * from[p];
      }
    }
  }
  store_doubles(ctx.out(), y);
}

int64_t flops(const OpView& view) { return conv_shape(view.node, view.inputs[0].shape, view.inputs[1].shape).flops(); }

}  // namespace

KILTER_OP(DeformConv){
    .name = "DeformConv",
    .since = 19,
    .min_inputs = 3,
    .max_inputs = 5,
    .attrs = {{"dilations", "ints", ""},
              {"group", "int", "1"},
              {"kernel_shape", "ints", ""},
              {"offset_group", "int", "1"},
              {"pads", "ints", ""},
              {"strides", "ints", ""}},
    .summary =
        "Conv of x [N, C, H, W] whose taps read bilinear samples at positions moved by offset [N, 2 * groups * taps, "
        "oH, oW] (row, column) and weighted by mask.",
    .infer = infer,
    .reference = reference,
    .flops = flops,
    .tolerance = {.rtol = 1e-4, .atol = 1e-5},
    .cases = {"f32[1,3,7,8] f32[5,3,3,3] f32[1,18,5,6] f32[5] f32[1,9,5,6]",
              "f32[2,4,6,6] f32[4,2,2,2] f32[2,16,3,3] | group=2 offset_group=2 strides=[2,2]",
              "f32[1,2,5,5] f32[3,2,3,3] f32[1,18,5,5] ? f32[1,9,5,5] | pads=[1,1,1,1]"},
};

}  // namespace kilter
