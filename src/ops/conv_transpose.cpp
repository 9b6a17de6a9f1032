#include <algorithm>

#include "ops/support/elementwise.h"
#include "ops/support/window.h"

namespace kilter {
namespace {

/// The extents of x [batch, channels, in...] and w [channels, filters / groups, kernel...].
struct TransposeShape {
  int64_t filters = 0;
  int64_t groups = 1;
  Window window;
};

TransposeShape transpose_shape(const Node& node, const Shape& x, const Shape& w) {
  TransposeShape shape;
  shape.window = conv_transpose_window(node, x, w);
  shape.groups = node.int_attr("group", 1);
  if (shape.groups < 1 || x[1] != w[0] || x[1] % shape.groups != 0) {
    node_error(node, fmt::format("input {} and filter {} do not fit group={}: expected as many filter rows as input "
                                 "channels, divisible by group",
                                 text(x), text(w), shape.groups));
  }
  shape.filters = w[1] * shape.groups;
  return shape;
}

void infer(InferContext& ctx) {
  check_types(Floats{}, ctx, 0);
  check_same_dtype(ctx);
  const TransposeShape shape = transpose_shape(ctx.node, ctx.shape(0), ctx.shape(1));
  if (ctx.has(2) && ctx.shape(2) != Shape{shape.filters}) {
    ctx.error(fmt::format("bias has shape {}, expected {}", text(ctx.shape(2)), shape.filters));
  }
  Shape out = {ctx.shape(0)[0], shape.filters};
  out.insert(out.end(), shape.window.out.begin(), shape.window.out.end());
  ctx.set(0, ctx.dtype(0), out);
}

/// A tap of the filter with the input and output rows that it connects.
struct RowTap {
  int64_t input, output, filter;
};

/// Returns all (input row, tap row) pairs whose output row exists.
std::vector<RowTap> row_taps(const Window& win) {
  std::vector<RowTap> taps(1);
  const size_t last = win.rank() - 1;
  for (size_t a = 0; a < last; ++a) {
    std::vector<RowTap> next;
    for (const RowTap& tap : taps) {
      for (int64_t i = 0; i < win.in[a]; ++i) {
        for (int64_t k = 0; k < win.kernel[a]; ++k) {
          const int64_t o = win.source(a, i, k);
          if (o < 0 || o >= win.out[a]) continue;
          next.push_back({tap.input * win.in[a] + i, tap.output * win.out[a] + o, tap.filter * win.kernel[a] + k});
        }
      }
    }
    taps.swap(next);
  }
  for (RowTap& tap : taps) {
    tap.input *= win.in[last];
    tap.output *= win.out[last];
    tap.filter *= win.kernel[last];
  }
  return taps;
}

/// Adds the product of one input plane and one filter plane to one output plane.
void add_plane(const Window& win, const std::vector<RowTap>& taps, const double* x, const double* w, double* y) {
  const size_t last = win.rank() - 1;
  const int64_t stride = win.strides[last];
  for (const RowTap& tap : taps) {
    for (int64_t k = 0; k < win.kernel[last]; ++k) {
      const Range range = inside(win.in[last], stride, win.source(last, 0, k), win.out[last]);
      if (range.begin >= range.end) continue;
      const double weight = w[tap.filter + k];
      const double* from = x + tap.input + range.begin;
      double* to = y + tap.output + win.source(last, range.begin, k);
      for (int64_t i = 0; i < range.end - range.begin; ++i) to[i * stride] += weight * from[i];
    }
  }
}

void reference(ReferenceContext& ctx) {
  const Shape& xs = ctx.in(0).shape();
  const TransposeShape shape = transpose_shape(ctx.node, xs, ctx.in(1).shape());
  const Window& win = shape.window;
  const std::vector<double> x = load_doubles(ctx.in(0));
  const std::vector<double> w = load_doubles(ctx.in(1));
  const std::vector<double> bias = ctx.has(2) ? load_doubles(ctx.in(2)) : std::vector<double>();
  std::vector<double> y(static_cast<size_t>(ctx.out().elems()));
  const std::vector<RowTap> taps = row_taps(win);
  const int64_t channels = xs[1] / shape.groups;
  const int64_t filters = shape.filters / shape.groups;
  for (int64_t n = 0; n < xs[0]; ++n) {
    for (int64_t m = 0; m < shape.filters; ++m) {
      double* plane = y.data() + (n * shape.filters + m) * win.out_elems();
      const int64_t group = m / filters;
      std::fill(plane, plane + win.out_elems(), bias.empty() ? 0.0 : bias[static_cast<size_t>(m)]);
      for (int64_t c = group * channels; c < (group + 1) * channels; ++c) {
        add_plane(win, taps, x.data() + (n * xs[1] + c) * win.in_elems(),
                  w.data() + (c * filters + m % filters) * win.kernel_elems(), plane);
      }
    }
  }
  store_doubles(ctx.out(), y);
}

int64_t flops(const OpView& view) {
  const Shape& w = view.inputs[1].shape;
  return 2 * elems(view.inputs[0].shape) * (w[0] == 0 ? 0 : elems(w) / w[0]);
}

}  // namespace

KILTER_OP(ConvTranspose){
    .name = "ConvTranspose",
    .family = Family::conv_transpose,
    .min_inputs = 2,
    .max_inputs = 3,
    .attrs = {{"auto_pad", "string", "NOTSET"},
              {"dilations", "ints", ""},
              {"group", "int", "1"},
              {"kernel_shape", "ints", ""},
              {"output_padding", "ints", ""},
              {"output_shape", "ints", ""},
              {"pads", "ints", ""},
              {"strides", "ints", ""}},
    .summary =
        "Adds each element of x [N, C, d0, ...] times the filters w [C, M/group, k0, ...] to y [N, M, o0, ...], in "
        "steps of the strides, plus b [M].",
    .infer = infer,
    .reference = reference,
    .flops = flops,
    // As for Conv: a long sum in a different order.
    .tolerance = {.rtol = 1e-4, .atol = 1e-5},
    .cases = {"f32[1,3,5,7] f32[3,7,3,3] f32[7] | strides=[2,2] pads=[1,1,1,1] output_padding=[1,1]",
              "f32[2,17,4,9] f32[17,5,2,2] ? | strides=[2,2]", "f32[2,24,6,21] f32[24,1,2,2] f32[1] | strides=[2,2]",
              "f32[1,5,9,4] f32[5,1,3,3] | strides=[3,3]", "f32[1,20,5,7] f32[20,20,3,3] | strides=[] dilations=[]",
              "f32[1,6,5,5] f32[6,4,3,2] f32[8] | group=2 dilations=[2,1] pads=[0,1,2,0]",
              "f32[1,4,6,3] f32[4,1,3,3] | group=4 strides=[1,2] auto_pad=SAME_UPPER",
              "f32[1,4,3,3] f32[4,3,4,4] | strides=[3,2] output_shape=[10,8]",
              "f32[1,3,11] f32[3,5,4] f32[5] | strides=[3] auto_pad=SAME_LOWER",
              "f32[1,2,3,4,5] f32[2,3,3,2,2] f32[3] | strides=[1,2,2] pads=[1,0,0,1,1,0]"},
};

}  // namespace kilter
