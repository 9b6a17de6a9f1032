#include "ops/support/integer_form.h"

#include "graph/values.h"
#include "ops/support/onnx_dtype.h"
#include "ops/support/quantization.h"

namespace kilter {
namespace {

ValueId shaped(ExpandContext& ctx, ValueId value, const Shape& shape) {
  const Shape own = ctx.builder.type(value).shape;
  const Shape to = elems(own) == 1 ? Shape{} : shape;
  return own == to ? value : ctx.add("Reshape", {value, ctx.builder.list(to)});
}

}  // namespace

ValueId integers(ExpandContext& ctx, size_t x, size_t zero, const Shape& zero_shape) {
  std::vector<ValueId> inputs = {ctx.in(x), ctx.scalar(DType::f32, 1)};
  if (ctx.has(zero)) inputs.push_back(shaped(ctx, ctx.in(zero), zero_shape));
  return ctx.builder.add_kilter("Dequantize", std::move(inputs), {{"to", code_of_dtype(DType::f32)}}, ctx.node.name);
}

ValueId in_f64(ExpandContext& ctx, ValueId value, const Shape& shape) {
  return shaped(ctx, ctx.add("Cast", {value}, {{"to", code_of_dtype(DType::f64)}}), shape);
}

ValueId quantised(ExpandContext& ctx, std::vector<ValueId> terms, ValueId summand, size_t zero, DType type) {
  const IntegerRange range = integer_range(type);
  int64_t low = -(1 << 18), high = 1 << 18;  // of an unknown zero point: any integer that matters
  const Tensor* constant = ctx.has(zero) ? constant_of(ctx.builder.graph(), ctx.in(zero)) : nullptr;
  if (constant != nullptr || !ctx.has(zero)) {
    const int64_t point = constant != nullptr ? constant->as_int(0) : 0;
    low = static_cast<int64_t>(range.low) - point, high = static_cast<int64_t>(range.high) - point;
  }
  terms.push_back(summand);
  const ValueId rounded =
      ctx.builder.add_kilter("RoundedSum", std::move(terms), {{"low", low}, {"high", high}}, ctx.node.name);
  std::vector<ValueId> inputs = {rounded, ctx.scalar(DType::f32, 1)};
  if (ctx.has(zero)) inputs.push_back(shaped(ctx, ctx.in(zero), {}));
  return ctx.builder.add_kilter("Quantize", std::move(inputs), {{"to", code_of_dtype(type)}}, ctx.node.name);
}

ValueId quantised(ExpandContext& ctx, std::vector<ValueId> terms, size_t zero, DType type) {
  return quantised(ctx, std::move(terms), ctx.scalar(DType::f64, 0), zero, type);
}

}  // namespace kilter
