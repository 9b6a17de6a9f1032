#include "ops/support/conv_reference.h"
#include "ops/support/elementwise.h"
#include "ops/support/integer_form.h"
#include "ops/support/quantized.h"

namespace kilter {
namespace {

/// Checks that input i, a parameter of the filters, has one element or one per filter.
void check_per_filter(const InferContext& ctx, size_t i, int64_t filters, const char* what) {
  if (ctx.has(i) && elems(ctx.shape(i)) != 1 && ctx.shape(i) != Shape{filters}) {
    ctx.error(
        fmt::format("{} (input {}) has shape {}, expected one element or {}", what, i, text(ctx.shape(i)), filters));
  }
}
/// The shape in which one element per filter broadcasts to filters of shape `w`.
Shape filter_shape(const Shape& w) {
  Shape shape(w.size(), 1);
  shape[0] = w[0];
  return shape;
}
Shape per_filter_shape(const Tensor& parameter, const Shape& w) {
  return !parameter.defined() || parameter.elems() == 1 ? Shape{} : filter_shape(w);
}

void infer_integer(InferContext& ctx) {
  check_quantized(ctx, 0);
  check_quantized(ctx, 1);
  check_zero_type(ctx, 2, 0);
  check_zero_type(ctx, 3, 1);
  const ConvShape shape = conv_shape(ctx.node, ctx.shape(0), ctx.shape(1));
  check_scalar(ctx, 2, "x_zero_point");
  check_per_filter(ctx, 3, shape.filters, "w_zero_point");
  ctx.set(0, DType::i32, shape.out());
}

/// Calls emit(filter, position in y, sum) for the convolution of the quantised tensors x and w.
template <class Emit>
void convolve(ReferenceContext& ctx, size_t x, size_t x_zero, size_t w, size_t w_zero, Emit emit) {
  const auto zero = [&](size_t i) { return ctx.has(i) ? ctx.in(i) : Tensor(); };
  const ConvShape shape = conv_shape(ctx.node, ctx.in(x).shape(), ctx.in(w).shape());
  const std::vector<int64_t> image = shifted(ctx.in(x), zero(x_zero), {});
  const std::vector<int64_t> filter =
      shifted(ctx.in(w), zero(w_zero), per_filter_shape(zero(w_zero), ctx.in(w).shape()));
  conv_rows<int64_t>(shape, image.data(), filter.data(), [&](int64_t m, int64_t offset, std::span<const int64_t> row) {
    for (size_t i = 0; i < row.size(); ++i) emit(m, offset + static_cast<int64_t>(i), row[i]);
  });
}

void reference_integer(ReferenceContext& ctx) {
  int32_t* y = ctx.out().data<int32_t>();
  convolve(ctx, 0, 2, 1, 3, [&](int64_t, int64_t at, int64_t sum) { y[at] = static_cast<int32_t>(sum); });
}

/// Inputs of QLinearConv: x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, bias.
void infer_linear(InferContext& ctx) {
  check_quantized(ctx, 0);
  check_quantized(ctx, 3);
  check_quantized(ctx, 7);
  check_zero_type(ctx, 2, 0);
  check_zero_type(ctx, 5, 3);
  for (const size_t i : {1U, 4U, 6U}) check_types(Types<float>{}, ctx, i);
  const ConvShape shape = conv_shape(ctx.node, ctx.shape(0), ctx.shape(3));
  check_scalar(ctx, 1, "x_scale");
  check_scalar(ctx, 2, "x_zero_point");
  check_per_filter(ctx, 4, shape.filters, "w_scale");
  check_per_filter(ctx, 5, shape.filters, "w_zero_point");
  check_scalar(ctx, 6, "y_scale");
  check_scalar(ctx, 7, "y_zero_point");
  if (ctx.has(8) && (ctx.dtype(8) != DType::i32 || ctx.shape(8) != Shape{shape.filters})) {
    ctx.error(fmt::format("bias has type {}, expected i32[{}]", text(ctx.type(8)), shape.filters));
  }
  ctx.set(0, ctx.dtype(7), shape.out());
}

void reference_linear(ReferenceContext& ctx) {
  const std::vector<double> w_scale = load_doubles(ctx.in(4));
  const double x_scale = ctx.in(1).as_double(0);
  const PerTensor y = per_tensor(ctx, 6, 7);
  convolve(ctx, 0, 2, 3, 5, [&](int64_t m, int64_t at, int64_t sum) {
    const double scale = x_scale * w_scale[w_scale.size() == 1 ? 0 : static_cast<size_t>(m)];  // exact in f64
    const int64_t bias = ctx.has(8) ? ctx.in(8).as_int(m) : 0;
    store_quotient(ctx.out(), at, wide_product(static_cast<double>(sum + bias), scale), y.scale, y.zero);
  });
}

std::vector<ValueId> expand_integer(ExpandContext& ctx) {
  const ValueId x = integers(ctx, 0, 2);
  const ValueId w = integers(ctx, 1, 3, filter_shape(ctx.type(1).shape));
  return {ctx.builder.add_kilter("IntegerConv", {x, w}, ctx.node.attrs, ctx.node.name)};
}

std::vector<ValueId> expand_linear(ExpandContext& ctx) {
  const ValueId x = integers(ctx, 0, 2);
  const ValueId w = integers(ctx, 3, 5, filter_shape(ctx.type(3).shape));
  const ValueId sums = ctx.builder.add_kilter("IntegerConv", {x, w}, ctx.node.attrs, ctx.node.name);
  Shape channels(ctx.type(3).shape.size(), 1);
  channels[1] = ctx.type(3).shape[0];
  const ValueId scales = ctx.add("Mul", {in_f64(ctx, ctx.in(1)), in_f64(ctx, ctx.in(4), channels)});
  const ValueId factor = ctx.add("Div", {scales, in_f64(ctx, ctx.in(6))});
  const DType type = ctx.type(7).dtype;
  if (!ctx.has(8)) return {quantised(ctx, {sums, factor}, 7, type)};
  const ValueId bias = ctx.add("Mul", {in_f64(ctx, ctx.in(8), channels), factor});
  return {quantised(ctx, {sums, factor}, bias, 7, type)};
}

int64_t flops_integer(const OpView& view) {
  return conv_shape(view.node, view.inputs[0].shape, view.inputs[1].shape).flops();
}
int64_t flops_linear(const OpView& view) {
  return conv_shape(view.node, view.inputs[0].shape, view.inputs[3].shape).flops();
}

}  // namespace

KILTER_OP(ConvInteger){
    .name = "ConvInteger",
    .since = 10,
    .min_inputs = 2,
    .max_inputs = 4,
    .attrs = conv_attrs(),
    .summary =
        "Conv of x - x_zero_point and w - w_zero_point, x and w of i8 or u8: y i32. Padding counts as the zero point. "
        "Sums wrap in 32 bits.",
    .infer = infer_integer,
    .reference = reference_integer,
    .expand = expand_integer,
    .flops = flops_integer,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"u8[1,3,9,11] i8[7,3,3,3] u8[]=12 i8[]=3 | pads=[1,1,1,1]",
              "u8[2,6,5,7] u8[4,3,2,2] | group=2 strides=[2,2]", "i8[1,4,9] i8[5,4,3] i8[]=1 i8[5] | dilations=[2]"},
};

KILTER_OP(QLinearConv){
    .name = "QLinearConv",
    .since = 10,
    .min_inputs = 8,
    .max_inputs = 9,
    .attrs = conv_attrs(),
    .summary =
        "Conv of quantised x and w into quantised y: y = saturate(round((x conv w + bias) / y_scale) + "
        "y_zero_point), ties to even; inputs x, x_scale, x_zero_point, w, w_scale, w_zero_point, y_scale, "
        "y_zero_point, bias i32 [M] of scale x_scale * w_scale.",
    .infer = infer_linear,
    .reference = reference_linear,
    .expand = expand_linear,
    .flops = flops_linear,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases =
        {"u8[1,3,9,11] f32[]=0.02 u8[]=50 i8[7,3,3,3] f32[]=0.01 i8[]=3 f32[]=0.5 u8[]=128 i32[7] | pads=[1,1,1,1]",
         "u8[2,6,5,7] f32[]=0.1 u8[]=20 u8[4,3,2,2] f32[4]=0.1,0.2,0.3,0.4 u8[4]=1,2,3,4 f32[]=9 u8[]=3 | group=2",
         "i8[1,4,9] f32[]=0.1 i8[]=1 i8[5,4,3] f32[]=0.1 i8[]=0 f32[]=3 i8[]=-20 | strides=[2]"},
};

}  // namespace kilter
