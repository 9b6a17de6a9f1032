#include <algorithm>
#include <array>
#include <cstdint>

#include "base/narrow.h"
#include "graph/values.h"
#include "ops/support/dtype_attr.h"
#include "ops/support/elementwise.h"
#include "ops/support/quantization.h"
#include "ops/support/scalar.h"

namespace kilter {
namespace {

using Scales = Types<float, Half, BFloat16>;

void check_zero_type(const Node& node, DType zero, DType x) {
  if (zero != x)
    node_error(node, fmt::format("zero point has element type {}, expected {} to match input 0", name(zero), name(x)));
}

void check_operands(InferContext& ctx) {
  check_quantised(ctx, 0, true);
  if (ctx.dtype(1) != DType::f8e8m0) check_types(Scales{}, ctx, 1);
  if (ctx.has(2)) check_zero_type(ctx.node, ctx.dtype(2), ctx.dtype(0));
}

DType checked_output(const Node& node, DType type) {
  if (type == DType::f32 || type == DType::f16 || type == DType::bf16) return type;
  node_error(node, fmt::format("output element type is {}; legal values are f32, f16, bf16", name(type)));
}

void infer(InferContext& ctx) {
  check_operands(ctx);
  quant_spread(ctx.node, ctx.shape(0), ctx.shape(1));
  check_zero_shape(ctx);
  ctx.set(0, checked_output(ctx.node, dtype_attr(ctx.node, "output_dtype", ctx.dtype(1))), ctx.shape(0));
}

/// Returns (x - zero_point) * scale for element i of x and element j of the zero point, which is 0 if undefined. The
/// difference of integers wraps in 32 bits.
double dequantize_value(const Tensor& x, int64_t i, const Tensor& zero_point, int64_t j, double scale) {
  float difference = 0;
  if (is_narrow(x.dtype())) {
    difference = static_cast<float>(x.as_double(i));
    if (zero_point.defined()) difference -= static_cast<float>(zero_point.as_double(j));
  } else {
    const auto zero = static_cast<uint32_t>(zero_point.defined() ? zero_point.as_int(j) : 0);
    difference = static_cast<float>(static_cast<int32_t>(static_cast<uint32_t>(x.as_int(i)) - zero));
  }
  return static_cast<double>(difference * static_cast<float>(scale));
}

void reference(ReferenceContext& ctx) {
  const QuantSpread spread = quant_spread(ctx.node, ctx.in(0).shape(), ctx.in(1).shape());
  const std::vector<int64_t> at = scale_offsets(spread, ctx.in(0).shape(), ctx.in(1).shape());
  const Tensor zero = ctx.has(2) ? ctx.in(2) : Tensor();
  std::vector<double> result(at.size());
  for (size_t i = 0; i < at.size(); ++i) {
    const auto x = static_cast<int64_t>(i);
    result[i] = dequantize_value(ctx.in(0), x, zero, at[i], ctx.in(1).as_double(at[i]));
  }
  store_doubles(ctx.out(), result);
}

/// Constants with one scale per block keep their node: products read them in blocks, and otherwise they are folded.
bool has_constant_blocks(const ExpandContext& ctx, const QuantSpread& spread) {
  return spread.granularity == Granularity::block && std::ranges::all_of(ctx.node.inputs, [&](ValueId v) {
           return v == kNone || constant_of(ctx.builder.graph(), v) != nullptr;
         });
}

/// Widens narrow integers to 8 bits, and a narrow scale to f32.
std::vector<ValueId> expand_widened(ExpandContext& ctx) {
  if (ctx.has(2)) check_zero_type(ctx.node, ctx.type(2).dtype, ctx.type(0).dtype);
  std::vector<ValueId> inputs = ctx.node.inputs;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (ctx.has(i) && is_narrow(ctx.type(i).dtype) && (i == 1 || is_narrow_integer(ctx.type(i).dtype)))
      inputs[i] = widened_operand(ctx, i);
  }
  return {ctx.add("DequantizeLinear", std::move(inputs), ctx.node.attrs)};
}

ValueId expand_from_float(ExpandContext& ctx, DType to, const QuantSpread& spread) {
  ValueId y = converted(ctx, ctx.in(0), DType::f32);
  if (ctx.has(2)) y = ctx.add("Sub", {y, converted(ctx, spread_operand(ctx, 2, spread), DType::f32)});
  return converted(ctx, ctx.add("Mul", {y, converted(ctx, spread_operand(ctx, 1, spread), DType::f32)}), to);
}

std::vector<ValueId> expand(ExpandContext& ctx) {
  if (is_narrow_integer(ctx.type(0).dtype) || is_narrow(ctx.type(1).dtype)) return expand_widened(ctx);
  const QuantSpread spread = quant_spread(ctx.node, ctx.type(0).shape, ctx.type(1).shape);
  if (has_constant_blocks(ctx, spread)) {
    GraphBuilder::Options options;
    options.name = ctx.node.name;
    options.expand = false;
    return ctx.builder.add("DequantizeLinear", ctx.node.inputs, ctx.node.attrs, options);
  }
  const DType type = dtype_attr(ctx.node, "output_dtype", ctx.type(1).dtype);
  if (is_narrow(ctx.type(0).dtype)) return {expand_from_float(ctx, type, spread)};
  std::vector<ValueId> inputs = {ctx.in(0), spread_operand(ctx, 1, spread)};
  if (ctx.has(2)) inputs.push_back(spread_operand(ctx, 2, spread));
  return {ctx.builder.add_kilter("Dequantize", inputs, {{"to", code_of_dtype(type)}}, ctx.node.name)};
}

/// The operator of ONNX Runtime's domain has no blocks.
std::vector<ValueId> expand_microsoft(ExpandContext& ctx) {
  std::vector<ValueId> inputs = {ctx.in(0), ctx.in(1)};
  if (ctx.has(2)) inputs.push_back(ctx.in(2));
  return {ctx.add("DequantizeLinear", std::move(inputs), {{"axis", ctx.node.int_attr("axis", 1)}})};
}

void infer_broadcasting(InferContext& ctx) {
  check_operands(ctx);
  ctx.set(0, checked_output(ctx.node, dtype_attr(ctx.node, "to", DType::f32)), broadcast_inputs(ctx));
}

/// Dequantises bytes to f32 with one scale and one zero point, so that there are only 256 results.
void dequantize_bytes(const Tensor& x, const Tensor& zero, double scale, const Tensor& out) {
  const Tensor codes(x.dtype(), {256});
  std::array<float, 256> results;
  for (size_t i = 0; i < results.size(); ++i) {
    codes.data<uint8_t>()[i] = static_cast<uint8_t>(i);
    results[i] = static_cast<float>(dequantize_value(codes, static_cast<int64_t>(i), zero, 0, scale));
  }
  std::ranges::transform(x.span<uint8_t>(), out.span<float>().begin(), [&](uint8_t code) { return results[code]; });
}

void reference_broadcasting(ReferenceContext& ctx) {
  const Shape& shape = ctx.out().shape();
  const Tensor zero = ctx.has(2) ? ctx.in(2) : Tensor();
  const DType type = ctx.in(0).dtype();
  const bool one = ctx.in(1).elems() == 1 && (!zero.defined() || zero.elems() == 1) && ctx.in(0).shape() == shape;
  if (one && (type == DType::u8 || type == DType::i8) && ctx.out().dtype() == DType::f32)
    return dequantize_bytes(ctx.in(0), zero, ctx.in(1).as_double(0), ctx.out());
  std::vector<double> result;
  for_each_offset<3>(shape,
                     {broadcast_strides(ctx.in(0).shape(), shape), broadcast_strides(ctx.in(1).shape(), shape),
                      broadcast_strides(zero.shape(), shape)},
                     [&](const std::array<int64_t, 3>& at) {
                       result.push_back(dequantize_value(ctx.in(0), at[0], zero, at[2], ctx.in(1).as_double(at[1])));
                     });
  store_doubles(ctx.out(), result);
}

std::optional<Expr> scalar(const OpView& op, std::span<const Expr> in) {
  Expr x = cast(DType::i32, in[0]);
  if (in.size() > 2) x = x - cast(DType::i32, in[2]);
  return cast(op.outputs[0].dtype, cast(DType::f32, x) * cast(DType::f32, in[1]));
}

}  // namespace

KILTER_OP(DequantizeLinear){
    .name = "DequantizeLinear",
    .since = 10,
    .family = Family::map,
    .min_inputs = 2,
    .max_inputs = 3,
    .attrs = {{"axis", "int", "1"}, {"block_size", "int", "0"}, {"output_dtype", "int", "0"}},
    .summary =
        "y = (x - zero_point) * scale for x in u8, i8, u16, i16, i32 or a narrow type; one scale per tensor, axis "
        "index or block.",
    .infer = infer,
    .reference = reference,
    .expand = expand,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"u8[2,3,5] f32[]=0.05 u8[]=128", "i8[2,3,5] f32[3]=0.1,0.2,0.05 i8[3]=0,1,-3", "i32[17] f32[1]=0.01",
              "u8[2,7] f16[]=0.1 u8[]=7", "u8[2,8] f32[2,2]=0.1,0.2,0.3,0.05 u8[2,2]=1,2,3,4 | axis=1 block_size=4",
              "i16[7,2] f32[3,2]=0.1,0.2,0.3,0.05,1,2 i16[3,2]=1,2,3,4,5,6 | axis=0 block_size=3",
              "u16[9] f32[]=0.1 u16[]=32768", "i8[2,3] f32[2]=0.1,0.2 | axis=0 | 13",
              "u8[9] f32[]=0.1 | output_dtype=10", "i4[2,3,5] f32[]=0.05 i4[]=-3",
              "u4[2,3,5] f32[3]=0.1,0.2,0.05 u4[3]=0,15,8", "i2[2,8] f32[2,2]=0.1,0.2,0.3,0.05 | axis=1 block_size=4",
              "u2[7] f16[]=0.1 u2[]=1", "f8e4m3fn[2,3,5] f32[3]=0.1,0.2,0.05", "f8e5m2[9] f16[]=0.5 f8e5m2[]=0",
              "f8e4m3fnuz[2,8] f32[2,2]=0.1,0.2,0.3,0.05 | axis=1 block_size=4", "f4e2m1[7] bf16[]=0.5 f4e2m1[]=1",
              "f4e2m1[2,8] f8e8m0[2,2]=0.5,1,2,0.25 | axis=1 block_size=4 output_dtype=1",
              "f8e5m2fnuz[5] f32[]=2 | output_dtype=16"},
};

KILTER_OP(MicrosoftDequantizeLinear){
    .name = "DequantizeLinear",
    .domain = "com.microsoft",
    .family = Family::map,
    .min_inputs = 2,
    .max_inputs = 3,
    .attrs = {{"axis", "int", "1"}},
    .summary = "DequantizeLinear with one scale per tensor or axis index.",
    .expand = expand_microsoft,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"u8[2,3,5] f32[]=0.05 u8[]=128", "i8[2,3,5] f32[3]=0.1,0.2,0.05 i8[3]=0,1,-3",
              "u16[2,5] f32[5]=0.1,0.2,0.05,1,2 u16[5]=30000 | axis=-1", "i32[17] f32[1]=0.01",
              "i16[2,7] f16[]=0.1 i16[1]=7"},
};

KILTER_OP(Dequantize){
    .name = "Dequantize",
    .domain = "kilter",
    .family = Family::map,
    .min_inputs = 2,
    .max_inputs = 3,
    .attrs = {{"to", "int", "required"}},
    .summary = "y = (x - zero_point) * scale, broadcast, in the element type `to`.",
    .infer = infer_broadcasting,
    .reference = reference_broadcasting,
    .scalar = scalar,
    .folds_late = true,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"u8[2,3,5] f32[]=0.05 u8[]=128 | to=1", "i8[2,3,5] f32[3,1]=0.1,0.2,0.05 i8[3,1]=0,1,-3 | to=1",
              "i32[17] f32[]=0.01 | to=1", "u8[2,7] f16[]=0.1 u8[]=7 | to=10", "u16[33] f32[]=0.1 u16[]=32768 | to=1"},
};

}  // namespace kilter
