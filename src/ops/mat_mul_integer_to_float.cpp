#include "ops/support/elementwise.h"
#include "ops/support/onnx_dtype.h"
#include "ops/support/quantized_product.h"

namespace kilter {
namespace {

enum Input : size_t { kA, kB, kAScale, kBScale, kAZero, kBZero, kBias };

using Results = Types<float, Half>;

/// Returns the shape in which a parameter with one element per column of b broadcasts to y, whose row dimension is
/// missing if a is a vector.
Shape column_shape(const Node& node, const Shape& parameter, const Shape& a, const Shape& b) {
  Shape shape = product_parameter_shape(node, parameter, b, false, "b_scale");
  if (a.size() == 1 && shape.size() >= 2) shape.erase(shape.end() - 2);
  return shape;
}

void infer(InferContext& ctx) {
  check_quantized(ctx, kA);
  check_quantized(ctx, kB);
  check_types(Results{}, ctx, kAScale);
  check_zero_type(ctx, kAZero, kA);
  check_zero_type(ctx, kBZero, kB);
  check_scalar(ctx, kAScale, "a_scale");
  if (ctx.has(kAZero)) product_parameter_shape(ctx.node, ctx.shape(kAZero), ctx.shape(kA), true, "a_zero_point");
  if (ctx.has(kBZero)) product_parameter_shape(ctx.node, ctx.shape(kBZero), ctx.shape(kB), false, "b_zero_point");
  const MatMulShape shape = matmul_shape(ctx.node, ctx.shape(kA), ctx.shape(kB));
  column_shape(ctx.node, ctx.shape(kBScale), ctx.shape(kA), ctx.shape(kB));
  for (const size_t i : {kBScale, kBias}) {
    if (ctx.has(i) && ctx.dtype(i) != ctx.dtype(kAScale)) {
      ctx.error(fmt::format("input {} has element type {}, expected {} to match a_scale", i, name(ctx.dtype(i)),
                            name(ctx.dtype(kAScale))));
    }
  }
  if (ctx.has(kBias) && ctx.shape(kBias) != Shape{shape.n} && elems(ctx.shape(kBias)) * shape.n != 1) {
    ctx.error(
        fmt::format("bias has shape {}, expected {}, one element per column of b", text(ctx.shape(kBias)), shape.n));
  }
  ctx.set(0, ctx.dtype(kAScale), shape.out);
}

void reference(ReferenceContext& ctx) {
  const Shape& out = ctx.out().shape();
  const double a_scale = ctx.in(kAScale).as_double(0);
  const Tensor& b_scale = ctx.in(kBScale);
  std::vector<double> scales;  // products of two f32, which f64 holds exactly
  const Shape shape = column_shape(ctx.node, b_scale.shape(), ctx.in(kA).shape(), ctx.in(kB).shape());
  for_each_offset<1>(out, {broadcast_strides(shape, out)},
                     [&](const std::array<int64_t, 1>& at) { scales.push_back(a_scale * b_scale.as_double(at[0])); });
  const int64_t columns = matmul_shape(ctx.node, ctx.in(kA).shape(), ctx.in(kB).shape()).n;
  multiply_quantized(ctx, kA, kAZero, kB, kBZero, [&](int64_t at, int64_t sum) {
    Wide real = wide_product(static_cast<double>(sum), scales[static_cast<size_t>(at)]);
    if (ctx.has(kBias)) real = real + ctx.in(kBias).as_double(at % columns);
    if (ctx.out().dtype() == DType::f32) {
      ctx.out().data<float>()[at] = rounded_f32(real);
    } else {
      ctx.out().data<Half>()[at] = convert<Half>(real.high);
    }
  });
}

std::vector<ValueId> expand(ExpandContext& ctx) {
  const auto cast_to = [&](ValueId v, DType type) {
    return ctx.builder.type(v).dtype == type ? v : ctx.add("Cast", {v}, {{"to", code_of_dtype(type)}});
  };
  const auto parameter = [&](size_t i, const Shape& shape) {
    const ValueId v = cast_to(ctx.in(i), DType::f32);
    return ctx.builder.type(v).shape == shape ? v : ctx.add("Reshape", {v, ctx.builder.list(shape)});
  };
  std::vector<ValueId> operands = {ctx.in(kA), ctx.in(kB), kNone, kNone};
  if (ctx.has(kAZero)) operands[2] = ctx.in(kAZero);
  if (ctx.has(kBZero)) operands[3] = ctx.in(kBZero);
  const ValueId sums = cast_to(ctx.add("MatMulInteger", std::move(operands)), DType::f32);
  const Shape columns = column_shape(ctx.node, ctx.type(kBScale).shape, ctx.type(kA).shape, ctx.type(kB).shape);
  const ValueId scale = ctx.add("Mul", {parameter(kAScale, {}), parameter(kBScale, columns)});
  ValueId y = ctx.add("Mul", {sums, scale});
  if (ctx.has(kBias)) {
    const int64_t count = elems(ctx.type(kBias).shape);
    y = ctx.add("Add", {y, parameter(kBias, count == 1 ? Shape{} : Shape{count})});
  }
  return {cast_to(y, ctx.type(kAScale).dtype)};
}

int64_t flops(const OpView& view) {
  return matmul_shape(view.node, view.inputs[kA].shape, view.inputs[kB].shape).flops();
}

std::vector<ValueId> expand_dynamic(ExpandContext& ctx) {
  enum Dynamic : size_t { kFloatA, kQuantisedB, kColumnScale, kColumnZero, kDynamicBias };
  GraphBuilder::Options options;
  options.name = ctx.node.name;
  options.output_count = 3;
  const std::vector<ValueId> a = ctx.builder.add("DynamicQuantizeLinear", {ctx.in(kFloatA)}, {}, options);
  const auto optional = [&](size_t i) { return ctx.has(i) ? ctx.in(i) : kNone; };
  options.output_count = 1;
  options.domain = "com.microsoft";
  return ctx.builder.add(
      "MatMulIntegerToFloat",
      {a[0], ctx.in(kQuantisedB), a[1], ctx.in(kColumnScale), a[2], optional(kColumnZero), optional(kDynamicBias)}, {},
      options);
}

}  // namespace

KILTER_OP(MatMulIntegerToFloat){
    .name = "MatMulIntegerToFloat",
    .domain = "com.microsoft",
    .min_inputs = 4,
    .max_inputs = 7,
    .summary =
        "y [..., m, n] = (a - a_zero_point) (b - b_zero_point) * a_scale * b_scale + bias in the type of the scales, "
        "f32 or f16; inputs a, b (i8 or u8), a_scale, b_scale (one element or one per column), a_zero_point, "
        "b_zero_point, bias [n].",
    .infer = infer,
    .reference = reference,
    .expand = expand,
    .flops = flops,
    // The expansion rounds the sum, the scale and the product to f32.
    .tolerance = {.rtol = 1e-6, .atol = 1e-6},
    .cases = {"u8[5,33] i8[33,17] f32[]=0.02 f32[]=0.01 u8[]=12 i8[]=3 f32[17]",
              "i8[2,3,9] i8[2,9,5] f32[1]=0.1 f32[5] ? i8[5]", "u8[7] u8[7,4] f32[]=0.1 f32[1,4] u8[1]=9 ? f32[4]",
              "u8[3,7] i8[7] f32[]=0.1 f32[1]=0.3 u8[]=9 i8[1]=1 f32[1]",
              "u8[2,4,8] u8[8,3] f16[]=0.1 f16[3] u8[]=50 u8[]=50", "u8[2,1,3,9] i8[2,9,4] f32[] f32[2,1,4]",
              "i8[7] i8[2,7,3] f32[] f32[2,1,3]"},
};

KILTER_OP(DynamicQuantizeMatMul){
    .name = "DynamicQuantizeMatMul",
    .domain = "com.microsoft",
    .min_inputs = 3,
    .max_inputs = 5,
    .summary =
        "MatMulIntegerToFloat of a, quantised as by DynamicQuantizeLinear, and b; inputs a f32, b (i8 or u8), b_scale "
        "(one element or one per column), b_zero_point, bias [n].",
    .expand = expand_dynamic,
    .tolerance = {.rtol = 1e-6, .atol = 1e-6},
    .cases = {"f32[5,33] i8[33,17] f32[]=0.01 i8[]=3 f32[17]", "f32[2,3,9] u8[9,5] f32[5] u8[5]",
              "f32[7] i8[7,4] f32[4] ? f32[4]"},
};

}  // namespace kilter
