// Linear quantisation: y = saturate(round(x / scale) + zero_point) and its inverse, with one scale for the whole
// tensor, for each index of an axis, or for each block along an axis.
#pragma once

#include <cstdint>

#include "ops/op.h"
#include "ops/support/builder.h"
#include "ops/support/cast_values.h"

namespace kilter {

enum class Granularity : uint8_t { tensor, axis, block };

/// The way in which the scale (and zero point) of a QuantizeLinear or DequantizeLinear node applies to x.
struct QuantSpread {
  Granularity granularity = Granularity::tensor;
  int64_t axis = 0;
  int64_t block = 1;
};
/// Derives the spread from attributes axis and block_size and the shape of the scale. Throws bad_model if they do not
/// fit the shape of x.
QuantSpread quant_spread(const Node& node, const Shape& x, const Shape& scale);

/// Throws bad_model unless the zero point (input 2) is omitted or has the shape of the scale (input 1), or both have
/// one element.
void check_zero_shape(const InferContext& ctx);

/// Returns the element offset into the dense scale for every element of x, in row-major order.
std::vector<int64_t> scale_offsets(const QuantSpread& spread, const Shape& x, const Shape& scale);

/// Returns input `i` of the node (the scale or the zero point) reshaped and repeated so that it broadcasts to x.
ValueId spread_operand(ExpandContext& ctx, size_t i, const QuantSpread& spread);

/// Throws bad_model unless input `i` has one of the types to which QuantizeLinear converts, or i32 if `sums`.
void check_quantised(const InferContext& ctx, size_t i, bool sums);
/// Throws unsupported unless QuantizeLinear converts to `type`.
void check_quantised(const Node& node, DType type);

/// Returns input `i` of the node, whose type is narrow, in the type's widened_type().
ValueId widened_operand(ExpandContext& ctx, size_t i);

/// The range of an integer type, as floats.
struct IntegerRange {
  float low;
  float high;
};
IntegerRange integer_range(DType type);

/// Returns x / scale, rounded to `precision` (f32, f16 or bf16).
float rounded_quotient(float x, float scale, DType precision);
/// Quantises one element to an integer.
float quantize_value(float x, float scale, float zero_point, DType precision, IntegerRange range);

}  // namespace kilter
