#include <algorithm>

#include "ops/support/elementwise.h"
#include "ops/support/integer_form.h"
#include "ops/support/onnx_dtype.h"
#include "ops/support/pool_reference.h"
#include "ops/support/quantized.h"

namespace kilter {
namespace {

enum Input : size_t { kX, kXScale, kXZero, kYScale, kYZero };

bool channels_last(const Node& node) { return node.int_attr("channels_last", 0) != 0; }

/// Returns the shape as [N, C, d0, ...]; with channels_last it is [N, d0, ..., C].
Shape channels_first_shape(const Node& node, Shape shape) {
  if (!channels_last(node)) return shape;
  if (shape.size() < 3) node_error(node, fmt::format("expected an input [N, d0, ..., C], got {}", text(shape)));
  std::rotate(shape.begin() + 1, shape.end() - 1, shape.end());
  return shape;
}

using WindowOf = Window (*)(const Node&, const Shape&);

template <WindowOf window_of>
void infer(InferContext& ctx) {
  check_quantized(ctx, kX);
  check_per_tensor(ctx, ctx.dtype(kX), kXScale, kXZero, "x");
  check_per_tensor(ctx, ctx.dtype(kX), kYScale, kYZero, "y");
  const Shape x = channels_first_shape(ctx.node, ctx.shape(kX));
  Shape y = pooled_shape(x, window_of(ctx.node, x));
  if (channels_last(ctx.node)) std::rotate(y.begin() + 1, y.begin() + 2, y.end());
  ctx.set(0, ctx.dtype(kX), std::move(y));
}

/// Stores the means under the window: sums of integers, divided once.
template <WindowOf window_of>
void reference(ReferenceContext& ctx) {
  const Shape shape = channels_first_shape(ctx.node, ctx.in(kX).shape());
  const Window window = window_of(ctx.node, shape);
  const bool count_padding = ctx.node.int_attr("count_include_pad", 0) != 0;
  const std::vector<int64_t> x = shifted(ctx.in(kX), ctx.has(kXZero) ? ctx.in(kXZero) : Tensor(), {});
  const PerTensor from = per_tensor(ctx, kXScale, kXZero);
  const PerTensor to = per_tensor(ctx, kYScale, kYZero);
  const int64_t channels = shape[1];
  const bool last = channels_last(ctx.node);
  // Offset of a pixel of plane p, and distance between neighbouring pixels.
  const auto first = [&](int64_t p, int64_t pixels) {
    return last ? p / channels * pixels * channels + p % channels : p * pixels;
  };
  const int64_t step = last ? channels : 1;
  for_each_window(window, [&](int64_t output, std::span<const int64_t> inputs, int64_t covered) {
    const int64_t counted = count_padding ? covered : static_cast<int64_t>(inputs.size());
    const auto count = static_cast<double>(std::max<int64_t>(counted, 1));  // a window beside x gives the zero point
    for (int64_t p = 0; p < shape[0] * channels; ++p) {
      const int64_t plane = first(p, window.in_elems());
      int64_t sum = 0;
      for (const int64_t i : inputs) sum += x[static_cast<size_t>(plane + i * step)];
      store_quotient(ctx.out(), first(p, window.out_elems()) + output * step,
                     wide_product(static_cast<double>(sum), from.scale), count * to.scale, to.zero);
    }
  });
}

/// Returns x_scale / (y_scale * count), f64.
ValueId mean_factor(ExpandContext& ctx, ValueId count) {
  const ValueId divisor = ctx.add("Mul", {in_f64(ctx, ctx.in(kYScale)), count});
  return ctx.add("Div", {in_f64(ctx, ctx.in(kXScale)), divisor});
}

/// Returns the integer sums under the windows, f32 or i32: means over all taps, padding included, times the number of
/// taps, rounded to remove the error of the means. Means of many taps are f64, as f32 would not hold the sums.
ValueId window_sums(ExpandContext& ctx, ValueId x, const Window& window, const Tensor& covered) {
  Attrs attrs = pool_attrs(ctx.node, window);
  attrs["count_include_pad"] = int64_t{1};
  const ValueId taps = ctx.builder.constant(covered);
  if (window.kernel_elems() > kMostTapsOfBytes) {
    const ValueId mean = ctx.add("AveragePool", {ctx.add("Cast", {x}, {{"to", code_of_dtype(DType::f64)}})}, attrs);
    const ValueId sum = ctx.add("Round", {ctx.add("Mul", {mean, taps})});
    return ctx.add("Cast", {sum}, {{"to", code_of_dtype(DType::i32)}});
  }
  const ValueId mean = ctx.add("AveragePool", {x}, attrs);
  const int64_t most = window.kernel_elems() * 255;
  return ctx.builder.add_kilter("RoundedSum", {mean, taps, ctx.scalar(DType::f64, 0)}, {{"low", -most}, {"high", most}},
                                ctx.node.name);
}

std::vector<ValueId> expand_windows(ExpandContext& ctx) {
  const Shape shape = channels_first_shape(ctx.node, ctx.type(kX).shape);
  const Window window = pool_window(ctx.node, shape);
  WindowCounts counts = window_counts(window, ctx.node.int_attr("count_include_pad", 0) != 0);
  for (double& count : counts.divisor.span<double>()) count = std::max(count, 1.0);
  const auto rank = static_cast<int64_t>(shape.size());
  std::vector<int64_t> to_first{0, rank - 1}, to_last{0};
  for (int64_t d = 1; d < rank - 1; ++d) to_first.push_back(d);
  for (int64_t d = 2; d < rank; ++d) to_last.push_back(d);
  to_last.push_back(1);

  ValueId x = integers(ctx, kX, kXZero);
  if (channels_last(ctx.node)) x = ctx.add("Transpose", {x}, {{"perm", to_first}});
  const ValueId sum = window_sums(ctx, x, window, counts.covered);
  const ValueId factor = mean_factor(ctx, ctx.builder.constant(counts.divisor));
  const ValueId y = quantised(ctx, {sum, factor}, kYZero, ctx.type(kX).dtype);
  return {channels_last(ctx.node) ? ctx.add("Transpose", {y}, {{"perm", to_last}}) : y};
}

std::vector<ValueId> expand_global(ExpandContext& ctx) {
  const Shape& shape = ctx.type(kX).shape;
  const auto rank = static_cast<int64_t>(shape.size());
  const int64_t first = channels_last(ctx.node) ? 1 : 2;
  std::vector<int64_t> axes;
  int64_t count = 1;
  for (int64_t d = 0; d < rank - 2; ++d) {
    axes.push_back(first + d);
    count *= shape[static_cast<size_t>(axes.back())];
  }
  ValueId x = integers(ctx, kX, kXZero);
  constexpr int64_t kMostInF32 = (1 << 24) / 256;  // pixels whose sums f32 holds
  if (count >= kMostInF32) x = ctx.add("Cast", {x}, {{"to", code_of_dtype(DType::i32)}});
  const ValueId sum = ctx.add("ReduceSum", {x, ctx.builder.list(axes)}, {{"keepdims", int64_t{1}}});
  const ValueId factor = mean_factor(ctx, ctx.scalar(DType::f64, static_cast<double>(count)));
  return {quantised(ctx, {sum, factor}, kYZero, ctx.type(kX).dtype)};
}

}  // namespace

KILTER_OP(QLinearAveragePool){
    .name = "QLinearAveragePool",
    .domain = "com.microsoft",
    .min_inputs = 2,
    .max_inputs = 5,
    .attrs = {{"auto_pad", "string", "NOTSET"},
              {"ceil_mode", "int", "0"},
              {"channels_last", "int", "0"},
              {"count_include_pad", "int", "0"},
              {"kernel_shape", "ints", "required"},
              {"pads", "ints", ""},
              {"strides", "ints", ""}},
    .summary =
        "AveragePool of quantised x [N, C, d0, ...], or [N, d0, ..., C] with channels_last, into quantised y, rounded "
        "once, ties to even; inputs x, x_scale, x_zero_point, y_scale, y_zero_point, all of i8 or all of u8.",
    .infer = infer<pool_window>,
    .reference = reference<pool_window>,
    .expand = expand_windows,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases =
        {"u8[1,3,9,13] f32[]=0.1 u8[]=12 f32[]=0.07 u8[]=3 | kernel_shape=[3,3] strides=[2,2] pads=[1,1,1,1]",
         "i8[2,5,7,7] f32[1]=0.1 i8[1]=-12 f32[]=0.07 i8[]=3 | kernel_shape=[2,2] count_include_pad=1 pads=[1,1,0,0]",
         "u8[1,7,9,2] f32[]=0.1 u8[]=12 f32[]=0.07 | kernel_shape=[3,2] strides=[2,3] ceil_mode=1 channels_last=1",
         "u8[1,4,15] f32[]=0.5 ? f32[]=0.5 u8[]=100 | kernel_shape=[5] strides=[3] auto_pad=SAME_LOWER",
         "i8[1,2,3,4,5] f32[] i8[] f32[] i8[] | kernel_shape=[2,3,2]",
         "u8[1,3,37,41] f32[]=0.1 u8[]=3 f32[]=0.01 u8[]=7 | kernel_shape=[33,35] strides=[2,3]"},
};

KILTER_OP(QLinearGlobalAveragePool){
    .name = "QLinearGlobalAveragePool",
    .domain = "com.microsoft",
    .min_inputs = 2,
    .max_inputs = 5,
    .attrs = {{"channels_last", "int", "0"}},
    .summary =
        "GlobalAveragePool of quantised x [N, C, d0, ...], or [N, d0, ..., C] with channels_last, into quantised y, "
        "rounded once, ties to even; inputs x, x_scale, x_zero_point, y_scale, y_zero_point, all of i8 or all of u8.",
    .infer = infer<global_window>,
    .reference = reference<global_window>,
    .expand = expand_global,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"u8[1,17,7,7] f32[]=0.1 u8[]=12 f32[]=0.07 u8[]=3", "i8[2,64,9] f32[1]=0.1 i8[1]=-12 f32[]=0.07 i8[]=3",
              "u8[2,3,4,5] f32[]=0.1 u8[]=12 f32[]=0.07 u8[]=3 | channels_last=1", "i8[1,3,2,2] f32[]=0.5 ? f32[]=0.5"},
};

}  // namespace kilter
