#include "ops/support/quantization.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/narrow.h"
#include "graph/values.h"
#include "ops/support/elementwise.h"
#include "ops/support/iterate.h"
#include "ops/support/onnx_dtype.h"

namespace kilter {
namespace {

/// The types of quantised values; the last is that of sums of products.
constexpr std::array kQuantised = {DType::u8,         DType::i8,     DType::u16,        DType::i16,    DType::f8e4m3fn,
                                   DType::f8e4m3fnuz, DType::f8e5m2, DType::f8e5m2fnuz, DType::f4e2m1, DType::u4,
                                   DType::i4,         DType::u2,     DType::i2,         DType::i32};

// A block may be as large as the largest integer, so adding to it could overflow.
int64_t blocks_of(int64_t extent, int64_t block) { return extent / block + (extent % block != 0 ? 1 : 0); }

[[noreturn]] void scale_error(const Node& node, const Shape& x, const Shape& scale, const std::string& expected) {
  node_error(node,
             fmt::format("scale has shape {}, expected {} for input 0 of shape {}", text(scale), expected, text(x)));
}

}  // namespace

QuantSpread quant_spread(const Node& node, const Shape& x, const Shape& scale) {
  QuantSpread spread;
  spread.block = node.int_attr("block_size", 0);
  if (spread.block < 0) node_error(node, fmt::format("attribute block_size is {}; it must be 0 or more", spread.block));
  if (scale.empty() || (spread.block == 0 && elems(scale) == 1)) return spread;
  const auto rank = static_cast<int64_t>(x.size());
  spread.axis = normal_axis(node, node.int_attr("axis", 1), rank);
  const auto at = static_cast<size_t>(spread.axis);
  if (spread.block == 0) {
    spread.granularity = Granularity::axis;
    if (scale.size() != 1 || scale[0] != x[at]) scale_error(node, x, scale, fmt::format("a scalar or {}", x[at]));
    return spread;
  }
  spread.granularity = Granularity::block;
  Shape expected = x;
  expected[at] = blocks_of(x[at], spread.block);
  if (scale != expected) scale_error(node, x, scale, text(expected));
  return spread;
}

std::vector<int64_t> scale_offsets(const QuantSpread& spread, const Shape& x, const Shape& scale) {
  std::vector<int64_t> offsets;
  offsets.reserve(static_cast<size_t>(elems(x)));
  const Shape strides = dense_strides(scale);
  const auto axis = static_cast<size_t>(spread.axis);
  for_each_index(x, [&](std::span<const int64_t> index) {
    if (spread.granularity == Granularity::tensor) {
      offsets.push_back(0);
    } else if (spread.granularity == Granularity::axis) {
      offsets.push_back(index[axis]);
    } else {
      const int64_t inside = (index[axis] - index[axis] / spread.block) * strides[axis];
      offsets.push_back(offset_of(index, strides) - inside);
    }
  });
  return offsets;
}

void check_zero_shape(const InferContext& ctx) {
  if (!ctx.has(2) || ctx.shape(2) == ctx.shape(1)) return;
  if (elems(ctx.shape(2)) == 1 && elems(ctx.shape(1)) == 1) return;
  ctx.error(
      fmt::format("zero point has shape {}, expected {} to match the scale", text(ctx.shape(2)), text(ctx.shape(1))));
}

ValueId spread_operand(ExpandContext& ctx, size_t i, const QuantSpread& spread) {
  const Shape shape = ctx.type(1).shape;
  const Shape& x = ctx.type(0).shape;
  const auto list = [&](const Shape& values) { return ctx.builder.list(values); };
  const auto reshaped = [&](ValueId v, const Shape& to) { return ctx.add("Reshape", {v, list(to)}); };
  const auto axis = static_cast<size_t>(spread.axis);
  const bool one = spread.granularity == Granularity::tensor;
  const Shape own = one ? Shape{} : shape;
  const ValueId value = ctx.type(i).shape == own ? ctx.in(i) : reshaped(ctx.in(i), own);
  if (one) return value;
  if (spread.granularity == Granularity::axis) {
    Shape column(x.size() - axis, 1);
    column[0] = x[axis];
    return reshaped(value, column);
  }
  Shape split = shape;
  split.insert(split.begin() + spread.axis + 1, 1);
  Shape repeated = split;
  repeated[axis + 1] = spread.block;
  Shape joined = shape;
  joined[axis] *= spread.block;
  const ValueId whole = reshaped(ctx.add("Expand", {reshaped(value, split), list(repeated)}), joined);
  if (joined[axis] == x[axis]) return whole;
  return ctx.add("Slice", {whole, list({0}), list({x[axis]}), list({spread.axis})});
}

void check_quantised(const InferContext& ctx, size_t i, bool sums) {
  const std::span legal = std::span(kQuantised).first(kQuantised.size() - (sums ? 0 : 1));
  if (std::ranges::find(legal, ctx.dtype(i)) == legal.end()) illegal_dtype(ctx.node, i, ctx.dtype(i), legal);
}

void check_quantised(const Node& node, DType type) {
  const std::span legal = std::span(kQuantised).first(kQuantised.size() - 1);
  if (std::ranges::find(legal, type) == legal.end()) unsupported_dtype(node, type, legal);
}

ValueId widened_operand(ExpandContext& ctx, size_t i) {
  if (const Tensor* constant = constant_of(ctx.builder.graph(), ctx.in(i)); constant != nullptr)
    return ctx.builder.constant(constant->widened(), ctx.node.name);
  return converted(ctx, ctx.in(i), widened_type(ctx.type(i).dtype));
}

IntegerRange integer_range(DType type) {
  if (is_narrow_integer(type)) {
    return {static_cast<float>(least_narrow_integer(type)), static_cast<float>(greatest_narrow_integer(type))};
  }
  IntegerRange range{0, 0};
  visit_dtype(type, [&]<class T>(T) {
    if constexpr (std::is_integral_v<T>) {
      range = {static_cast<float>(std::numeric_limits<T>::min()), static_cast<float>(std::numeric_limits<T>::max())};
    }
  });
  return range;
}

float rounded_quotient(float x, float scale, DType precision) {
  const float quotient = x / scale;
  if (precision == DType::f16) return static_cast<float>(Half(quotient));
  return precision == DType::bf16 ? static_cast<float>(BFloat16(quotient)) : quotient;
}

float quantize_value(float x, float scale, float zero_point, DType precision, IntegerRange range) {
  const float shifted = std::nearbyint(rounded_quotient(x, scale, precision)) + zero_point;
  const float raised = range.low > shifted ? range.low : shifted;
  return range.high < raised ? range.high : raised;
}

}  // namespace kilter
