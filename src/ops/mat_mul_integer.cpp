#include "graph/values.h"
#include "ops/support/elementwise.h"
#include "ops/support/integer_form.h"
#include "ops/support/onnx_dtype.h"
#include "ops/support/quantized_product.h"

namespace kilter {
namespace {

void infer_integer(InferContext& ctx) {
  check_quantized(ctx, 0);
  check_quantized(ctx, 1);
  check_zero_type(ctx, 2, 0);
  check_zero_type(ctx, 3, 1);
  if (ctx.has(2)) product_parameter_shape(ctx.node, ctx.shape(2), ctx.shape(0), true, "a_zero_point");
  if (ctx.has(3)) product_parameter_shape(ctx.node, ctx.shape(3), ctx.shape(1), false, "b_zero_point");
  ctx.set(0, DType::i32, matmul_shape(ctx.node, ctx.shape(0), ctx.shape(1)).out);
}

void reference_integer(ReferenceContext& ctx) {
  int32_t* y = ctx.out().data<int32_t>();
  multiply_quantized(ctx, 0, 2, 1, 3, [&](int64_t at, int64_t sum) { y[at] = static_cast<int32_t>(sum); });
}

/// Inputs of QLinearMatMul: a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero.
void infer_linear(InferContext& ctx) {
  check_quantized(ctx, 0);
  check_quantized(ctx, 3);
  check_quantized(ctx, 7);
  check_zero_type(ctx, 2, 0);
  check_zero_type(ctx, 5, 3);
  for (const size_t i : {1U, 4U, 6U}) check_types(Types<float, Half, BFloat16>{}, ctx, i);
  for (const size_t i : {1U, 2U})
    product_parameter_shape(ctx.node, ctx.shape(i), ctx.shape(0), true, "scale or zero point of a");
  for (const size_t i : {4U, 5U})
    product_parameter_shape(ctx.node, ctx.shape(i), ctx.shape(3), false, "scale or zero point of b");
  check_scalar(ctx, 6, "y_scale");
  check_scalar(ctx, 7, "y_zero_point");
  ctx.set(0, ctx.dtype(7), matmul_shape(ctx.node, ctx.shape(0), ctx.shape(3)).out);
}

void reference_linear(ReferenceContext& ctx) {
  // Scales are broadcast before the dimension of an operand of rank 1 is dropped.
  const MatMulShape shape = matmul_shape(ctx.node, ctx.in(0).shape(), ctx.in(3).shape());
  Shape out = shape.batch;
  out.insert(out.end(), {shape.m, shape.n});
  const std::vector<double> a_scale = load_doubles(ctx.in(1));
  const std::vector<double> b_scale = load_doubles(ctx.in(4));
  const Shape a_shape = product_parameter_shape(ctx.node, ctx.in(1).shape(), ctx.in(0).shape(), true, "a_scale");
  const Shape b_shape = product_parameter_shape(ctx.node, ctx.in(4).shape(), ctx.in(3).shape(), false, "b_scale");
  std::vector<double> scales;  // products of two f32, which f64 holds exactly
  for_each_offset<2>(out, {broadcast_strides(a_shape, out), broadcast_strides(b_shape, out)},
                     [&](const std::array<int64_t, 2>& at) {
                       scales.push_back(a_scale[static_cast<size_t>(at[0])] * b_scale[static_cast<size_t>(at[1])]);
                     });
  const PerTensor y = per_tensor(ctx, 6, 7);
  multiply_quantized(ctx, 0, 2, 3, 5, [&](int64_t at, int64_t sum) {
    const Wide real = wide_product(static_cast<double>(sum), scales[static_cast<size_t>(at)]);
    store_quotient(ctx.out(), at, real, y.scale, y.zero);
  });
}

/// The product of the operands without their zero points: inputs a, a_zero, b and b_zero.
ValueId multiply_integers(ExpandContext& ctx, size_t a, size_t a_zero, size_t b, size_t b_zero) {
  const auto shape = [&](size_t zero, size_t of, bool rows) {
    return ctx.has(zero)
               ? product_parameter_shape(ctx.node, ctx.type(zero).shape, ctx.type(of).shape, rows, "zero point")
               : Shape{};
  };
  const ValueId right = integers(ctx, b, b_zero, shape(b_zero, b, false));
  const bool known = !ctx.has(a_zero) || constant_of(ctx.builder.graph(), ctx.in(a_zero)) != nullptr;
  const bool one = ctx.has(a_zero) && elems(ctx.type(a_zero).shape) == 1;
  const bool matrices = ctx.type(a).shape.size() > 1 && ctx.type(b).shape.size() > 1;
  if (known || !one || !matrices) {
    const ValueId left = integers(ctx, a, a_zero, shape(a_zero, a, true));
    return ctx.builder.add_kilter("IntegerMatMul", {left, right}, {}, ctx.node.name);
  }
  // The codes of `a` have a range that is known; the zero point counts once for each column of b.
  const auto in_i32 = [&](ValueId v) { return ctx.add("Cast", {v}, {{"to", code_of_dtype(DType::i32)}}); };
  const ValueId codes = integers(ctx, a, ctx.node.inputs.size());
  const ValueId sums = ctx.builder.add_kilter("IntegerMatMul", {codes, right}, {}, ctx.node.name);
  const ValueId columns =
      ctx.add("ReduceSum", {in_i32(right), ctx.builder.list(Shape{-2})}, {{"keepdims", int64_t{1}}});
  const ValueId zero = ctx.add("Reshape", {in_i32(ctx.in(a_zero)), ctx.builder.list(Shape())});
  return ctx.add("Sub", {sums, ctx.add("Mul", {zero, columns})});
}

std::vector<ValueId> expand_integer(ExpandContext& ctx) { return {multiply_integers(ctx, 0, 2, 1, 3)}; }

std::vector<ValueId> expand_linear(ExpandContext& ctx) {
  const ValueId sums = multiply_integers(ctx, 0, 2, 3, 5);
  const auto scale = [&](size_t i, size_t of, bool rows) {
    Shape shape = product_parameter_shape(ctx.node, ctx.type(i).shape, ctx.type(of).shape, rows, "scale");
    // The dimension of an operand of rank 1 is missing from the result.
    if (rows && ctx.type(3).shape.size() == 1 && !shape.empty()) shape.pop_back();
    if (!rows && ctx.type(0).shape.size() == 1 && shape.size() >= 2) shape.erase(shape.end() - 2);
    return in_f64(ctx, ctx.in(i), shape);
  };
  const ValueId scales = ctx.add("Mul", {scale(1, 0, true), scale(4, 3, false)});
  const ValueId factor = ctx.add("Div", {scales, in_f64(ctx, ctx.in(6))});
  return {quantised(ctx, {sums, factor}, 7, ctx.type(7).dtype)};
}

int64_t flops_integer(const OpView& view) {
  return matmul_shape(view.node, view.inputs[0].shape, view.inputs[1].shape).flops();
}
int64_t flops_linear(const OpView& view) {
  return matmul_shape(view.node, view.inputs[0].shape, view.inputs[3].shape).flops();
}

}  // namespace

KILTER_OP(MatMulInteger){
    .name = "MatMulInteger",
    .since = 10,
    .min_inputs = 2,
    .max_inputs = 4,
    .summary =
        "y i32 [..., m, n] = (a - a_zero_point) (b - b_zero_point) for a, b of i8 or u8; zero points are one "
        "element, or one per row of a and per column of b. Sums wrap in 32 bits.",
    .infer = infer_integer,
    .reference = reference_integer,
    .expand = expand_integer,
    .flops = flops_integer,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"u8[5,33] i8[33,17] u8[]=12 i8[]=3", "u8[3,7] u8[7,4]", "i8[2,3,9] i8[2,9,5] i8[2,3,1] i8[2,1,5]",
              "u8[4,8] u8[8,3] u8[4] u8[3]"},
};

KILTER_OP(QLinearMatMul){
    .name = "QLinearMatMul",
    .since = 10,
    .min_inputs = 8,
    .max_inputs = 8,
    .summary =
        "MatMul of quantised a and b into quantised y: y = saturate(round(a b / y_scale) + y_zero_point), ties to "
        "even; inputs a, a_scale, a_zero_point, b, b_scale, b_zero_point, y_scale, y_zero_point.",
    .infer = infer_linear,
    .reference = reference_linear,
    .expand = expand_linear,
    .flops = flops_linear,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"u8[5,33] f32[]=0.01 u8[]=50 i8[33,17] f32[]=0.02 i8[]=3 f32[]=0.5 u8[]=128",
              "i8[2,3,9] f32[]=0.03 i8[]=1 i8[2,9,4] f32[4]=0.01,0.02,0.03,0.04 i8[4]=0,1,2,3 f32[]=0.1 i8[]=-5",
              "u8[3,7] f32[3]=0.1,0.2,0.3 u8[3]=1,2,3 u8[7,4] f32[1]=0.25 u8[1]=9 f32[]=30 u8[]=7 | | 21",
              "u8[3,7] f32[3]=0.1,0.2,0.3 u8[3]=1,2,3 i8[7] f32[]=0.25 i8[]=9 f32[]=30 u8[]=7",
              "i8[7] f32[1]=0.1 i8[1]=-2 i8[2,7,3] f32[2,1,3]=0.1,0.2,0.3,0.4,0.5,0.6 i8[2,1,3]=1 f32[1]=20 i8[1]=1",
              "u8[2,1,3,9] f32[2,1,3,1]=1,2,3,4,5,6 u8[2,1,3,1]=7 u8[4,9,2] f32[2]=1,2 u8[2]=3,4 f32[]=900 u8[]=11"},
};

}  // namespace kilter
