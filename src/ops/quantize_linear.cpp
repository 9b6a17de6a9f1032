#include "base/narrow.h"
#include "ops/support/dtype_attr.h"
#include "ops/support/elementwise.h"
#include "ops/support/quantization.h"
#include "ops/support/scalar.h"

namespace kilter {
namespace {

using Source = Types<float, Half, BFloat16, int32_t>;

DType precision_of(const Node& node, DType scale) {
  const DType type = dtype_attr(node, "precision", scale);
  if (type == DType::f16 || type == DType::bf16) return type;
  return DType::f32;
}

/// Returns the output's element type: that of the zero point, else attribute output_dtype, else u8.
DType output_type(const InferContext& ctx) {
  const DType by_attribute = dtype_attr(ctx.node, "output_dtype", DType::u8);
  if (!ctx.has(2)) return by_attribute;
  if (ctx.node.int_attr("output_dtype", 0) != 0 && by_attribute != ctx.dtype(2)) {
    ctx.error(fmt::format("attribute output_dtype says {} but the zero point has element type {}", name(by_attribute),
                          name(ctx.dtype(2))));
  }
  return ctx.dtype(2);
}

void check_operands(InferContext& ctx) {
  check_types(Source{}, ctx, 0);
  if (ctx.dtype(1) != DType::f8e8m0) check_types(Source{}, ctx, 1);
  if (ctx.has(2)) check_quantised(ctx, 2, false);
  check_quantised(ctx.node, output_type(ctx));
}

void infer(InferContext& ctx) {
  check_operands(ctx);
  quant_spread(ctx.node, ctx.shape(0), ctx.shape(1));
  check_zero_shape(ctx);
  ctx.set(0, output_type(ctx), ctx.shape(0));
}

void reference(ReferenceContext& ctx) {
  const QuantSpread spread = quant_spread(ctx.node, ctx.in(0).shape(), ctx.in(1).shape());
  const std::vector<int64_t> at = scale_offsets(spread, ctx.in(0).shape(), ctx.in(1).shape());
  const DType precision = precision_of(ctx.node, ctx.in(1).dtype());
  const DType type = ctx.out().dtype();
  const bool floats = is_narrow(type) && !is_narrow_integer(type);
  const bool saturate = ctx.node.int_attr("saturate", 1) != 0;
  const IntegerRange range = integer_range(type);
  std::vector<double> result(at.size());
  for (size_t i = 0; i < at.size(); ++i) {
    const auto x = static_cast<float>(ctx.in(0).as_double(static_cast<int64_t>(i)));
    const auto scale = static_cast<float>(ctx.in(1).as_double(at[i]));
    const float zero = ctx.has(2) ? static_cast<float>(ctx.in(2).as_double(at[i])) : 0;
    if (floats) {
      const float quotient = rounded_quotient(x, scale, precision);
      const float y = ctx.has(2) ? quotient + zero : quotient;
      ctx.out().data<uint8_t>()[i] = narrow_code(type, static_cast<double>(y), {.saturate = saturate});
    } else {
      result[i] = static_cast<double>(quantize_value(x, scale, zero, precision, range));
    }
  }
  if (!floats) store_doubles(ctx.out(), result);
}

/// Divides in f32 and converts.
ValueId expand_to_float(ExpandContext& ctx, DType type, const QuantSpread& spread) {
  const ValueId x = converted(ctx, ctx.in(0), DType::f32);
  const ValueId scale = converted(ctx, spread_operand(ctx, 1, spread), DType::f32);
  const ValueId rounded = converted(ctx, ctx.add("Div", {x, scale}), precision_of(ctx.node, ctx.type(1).dtype));
  ValueId y = converted(ctx, rounded, DType::f32);
  if (ctx.has(2)) y = ctx.add("Add", {y, converted(ctx, spread_operand(ctx, 2, spread), DType::f32)});
  return ctx.add("Cast", {y}, {{"to", code_of_dtype(type)}, {"saturate", ctx.node.int_attr("saturate", 1)}});
}

/// Quantises to 8 bits, limits the result to the range of the type, and converts.
ValueId expand_to_integer(ExpandContext& ctx, DType type) {
  const DType wide = widened_type(type);
  Attrs attrs = ctx.node.attrs;
  attrs["output_dtype"] = code_of_dtype(wide);
  std::vector<ValueId> inputs = {ctx.in(0), ctx.in(1)};
  if (ctx.has(2)) inputs.push_back(widened_operand(ctx, 2));
  const ValueId y = ctx.add("QuantizeLinear", std::move(inputs), std::move(attrs));
  const ValueId least = ctx.scalar(wide, static_cast<double>(least_narrow_integer(type)));
  const ValueId greatest = ctx.scalar(wide, static_cast<double>(greatest_narrow_integer(type)));
  return ctx.add("Cast", {ctx.add("Clip", {y, least, greatest})}, {{"to", code_of_dtype(type)}});
}

std::vector<ValueId> expand(ExpandContext& ctx) {
  const QuantSpread spread = quant_spread(ctx.node, ctx.type(0).shape, ctx.type(1).shape);
  const DType type = ctx.has(2) ? ctx.type(2).dtype : dtype_attr(ctx.node, "output_dtype", DType::u8);
  if (is_narrow(type))
    return {is_narrow_integer(type) ? expand_to_integer(ctx, type) : expand_to_float(ctx, type, spread)};
  if (is_narrow(ctx.type(1).dtype)) {
    std::vector<ValueId> inputs = ctx.node.inputs;
    inputs[1] = widened_operand(ctx, 1);
    return {ctx.add("QuantizeLinear", std::move(inputs), ctx.node.attrs)};
  }
  std::vector<ValueId> inputs = {ctx.in(0), spread_operand(ctx, 1, spread)};
  if (ctx.has(2)) inputs.push_back(spread_operand(ctx, 2, spread));
  const DType precision = precision_of(ctx.node, ctx.type(1).dtype);
  return {ctx.builder.add_kilter(
      "Quantize", inputs, {{"to", code_of_dtype(type)}, {"precision", code_of_dtype(precision)}}, ctx.node.name)};
}

/// The operator of ONNX Runtime's domain has no blocks, and divides in f32 for every type of the scale.
std::vector<ValueId> expand_microsoft(ExpandContext& ctx) {
  std::vector<ValueId> inputs = {ctx.in(0), ctx.in(1)};
  if (ctx.has(2)) inputs.push_back(ctx.in(2));
  return {ctx.add("QuantizeLinear", std::move(inputs),
                  {{"axis", ctx.node.int_attr("axis", 1)}, {"precision", code_of_dtype(DType::f32)}})};
}

void infer_broadcasting(InferContext& ctx) {
  check_types(Source{}, ctx, 0);
  ctx.set(0, dtype_attr(ctx.node, "to", DType::u8), broadcast_inputs(ctx));
}

void reference_broadcasting(ReferenceContext& ctx) {
  const Shape& shape = ctx.out().shape();
  const Tensor none = Tensor::scalar<uint8_t>(0);
  const Tensor& zero = ctx.has(2) ? ctx.in(2) : none;
  const DType precision = precision_of(ctx.node, DType::f32);
  const IntegerRange range = integer_range(ctx.out().dtype());
  std::vector<double> result;
  for_each_offset<3>(shape,
                     {broadcast_strides(ctx.in(0).shape(), shape), broadcast_strides(ctx.in(1).shape(), shape),
                      broadcast_strides(zero.shape(), shape)},
                     [&](const std::array<int64_t, 3>& at) {
                       const auto x = static_cast<float>(ctx.in(0).as_double(at[0]));
                       const auto scale = static_cast<float>(ctx.in(1).as_double(at[1]));
                       const auto z = static_cast<float>(zero.as_double(at[2]));
                       result.push_back(static_cast<double>(quantize_value(x, scale, z, precision, range)));
                     });
  store_doubles(ctx.out(), result);
}

std::optional<Expr> scalar(const OpView& op, std::span<const Expr> in) {
  const DType precision = precision_of(op.node, DType::f32);
  const DType to = op.outputs[0].dtype;
  const IntegerRange range = integer_range(to);
  const Expr quotient = cast(DType::f32, in[0]) / cast(DType::f32, in[1]);
  Expr y = unary(Op::round_even, cast(DType::f32, cast(precision, quotient)));
  if (in.size() > 2) y = y + cast(DType::f32, in[2]);
  const auto low = static_cast<double>(range.low);
  const auto high = static_cast<double>(range.high);
  return cast(to, min(like(y, high), max(like(y, low), y)));
}

}  // namespace

KILTER_OP(QuantizeLinear){
    .name = "QuantizeLinear",
    .since = 10,
    .family = Family::map,
    .min_inputs = 2,
    .max_inputs = 3,
    .attrs = {{"axis", "int", "1"},
              {"block_size", "int", "0"},
              {"output_dtype", "int", "0"},
              {"precision", "int", "0"},
              {"saturate", "int", "1"}},
    .summary =
        "y = saturate(round(x / scale) + zero_point) in u8, i8, u16, i16 or a narrow type; one scale per tensor, axis "
        "index or block.",
    .infer = infer,
    .reference = reference,
    .expand = expand,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"f32[2,3,5] f32[]=0.05 u8[]=128", "f32[2,3,5] f32[3]=0.1,0.2,0.05 i8[3]=0,1,-3", "f32[17] f32[1]=0.01",
              "f16[2,7] f16[]=0.1 u8[]=7", "f32[2,8] f32[2,2]=0.1,0.2,0.3,0.05 u8[2,2]=1,2,3,4 | axis=1 block_size=4",
              "f32[7,2] f32[3,2]=0.1,0.2,0.3,0.05,1,2 i16[3,2]=1,2,3,4,5,6 | axis=0 block_size=3",
              "i32[9] f32[]=3 i8[]=1", "f32[9] f32[]=0.0001 | output_dtype=4",
              "f32[4]:nan,-1e9,1e9,0.5 f32[]=1 i8[]=0 | | 10", "f32[2,9] f32[]=0.1 i4[]=1",
              "f32[2,3] f32[3]=0.1,0.2,0.05 u4[3]=8,7,9",
              "f32[2,8] f32[2,2]=1,2,3,0.5 i2[2,2]=0,1,-1,0 | axis=1 block_size=4",
              "f16[9] f16[]=0.5 | output_dtype=25", "f32[5]:1,-1e9,1e9,inf,nan f32[]=0.5 f8e4m3fn[]=0",
              "f32[4]:1,-1e9,1e9,nan f32[]=0.5 f8e5m2[]=0 | saturate=0",
              "f32[2,3] f32[3]=0.1,0.2,0.05 f4e2m1[3]=0,1,-1", "f16[3,4] f16[]=0.3 | output_dtype=20",
              "f32[2,8] f8e8m0[2,2]=0.5,1,2,0.25 | axis=1 block_size=4 output_dtype=23"},
};

KILTER_OP(MicrosoftQuantizeLinear){
    .name = "QuantizeLinear",
    .domain = "com.microsoft",
    .family = Family::map,
    .min_inputs = 2,
    .max_inputs = 3,
    .attrs = {{"axis", "int", "1"}},
    .summary = "QuantizeLinear with one scale per tensor or axis index.",
    .expand = expand_microsoft,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"f32[2,3,5] f32[]=0.05 u8[]=128", "f32[2,3,5] f32[3]=0.1,0.2,0.05 i8[3]=0,1,-3",
              "f32[2,5] f32[5]=0.1,0.2,0.05,1,2 u16[5]=30000 | axis=-1", "f32[17] f32[1]=0.01",
              "f16[2,7] f16[]=0.1 i16[1]=7"},
};

KILTER_OP(Quantize){
    .name = "Quantize",
    .domain = "kilter",
    .family = Family::map,
    .min_inputs = 2,
    .max_inputs = 3,
    .attrs = {{"to", "int", "required"}, {"precision", "int", "1"}},
    .summary = "y = saturate(round(x / scale) + zero_point), broadcast, in the element type `to`.",
    .infer = infer_broadcasting,
    .reference = reference_broadcasting,
    .scalar = scalar,
    .quantises = true,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"f32[2,3,5] f32[]=0.05 u8[]=128 | to=2", "f32[2,3,5] f32[3,1]=0.1,0.2,0.05 i8[3,1]=0,1,-3 | to=3",
              "f32[17] f32[]=0.0001 | to=4", "f16[2,7] f16[]=0.1 u8[]=7 | to=2 precision=10",
              "i32[9] f32[]=3 i8[]=1 | to=3", "f32[4]:nan,-1e9,1e9,0.5 f32[]=1 i16[]=0 | to=5"},
};

}  // namespace kilter
