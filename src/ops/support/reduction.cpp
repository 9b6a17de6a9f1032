#include "ops/support/reduction.h"

#include "ops/support/iterate.h"
#include "ops/support/onnx_dtype.h"

namespace kilter {
namespace {

ValueId cast_to(ExpandContext& ctx, ValueId x, DType type) {
  if (ctx.builder.type(x).dtype == type) return x;
  return ctx.add("Cast", {x}, {{"to", code_of_dtype(type)}});
}

}  // namespace

Shape reduced_shape(const Shape& shape, const std::vector<int64_t>& axes, bool keepdims) {
  Shape out;
  for (size_t d = 0; d < shape.size(); ++d) {
    const bool reduced = std::find(axes.begin(), axes.end(), static_cast<int64_t>(d)) != axes.end();
    if (!reduced) {
      out.push_back(shape[d]);
    } else if (keepdims) {
      out.push_back(1);
    }
  }
  return out;
}

ReductionOffsets reduction_offsets(const Shape& shape, const std::vector<int64_t>& axes) {
  const Shape strides = dense_strides(shape);
  Shape kept, kept_strides, gone, gone_strides;
  for (size_t d = 0; d < shape.size(); ++d) {
    const bool reduced = std::find(axes.begin(), axes.end(), static_cast<int64_t>(d)) != axes.end();
    (reduced ? gone : kept).push_back(shape[d]);
    (reduced ? gone_strides : kept_strides).push_back(strides[d]);
  }
  ReductionOffsets offsets;
  for_each_offset<1>(kept, {kept_strides}, [&](const auto& at) { offsets.starts.push_back(at[0]); });
  for_each_offset<1>(gone, {gone_strides}, [&](const auto& at) { offsets.steps.push_back(at[0]); });
  return offsets;
}

ValueId reduce_as(ExpandContext& ctx, std::string_view op, ValueId x, bool keepdims) {
  std::vector<ValueId> inputs = {x};
  if (ctx.has(1)) {
    inputs.push_back(ctx.in(1));
  } else if (ctx.node.has_attr("axes")) {
    inputs.push_back(ctx.builder.list(ctx.node.ints_attr("axes")));
  }
  Attrs attrs = {{"keepdims", int64_t{keepdims}},
                 {"noop_with_empty_axes", ctx.node.int_attr("noop_with_empty_axes", 0)}};
  return ctx.add(op, std::move(inputs), std::move(attrs));
}

ValueId widened(ExpandContext& ctx, ValueId x, bool fractional) {
  const DType type = ctx.builder.type(x).dtype;
  if (type == DType::f16 || type == DType::bf16) return cast_to(ctx, x, DType::f32);
  if (fractional && is_integer(type)) return cast_to(ctx, x, DType::f64);
  return x;
}

ValueId narrowed(ExpandContext& ctx, ValueId y, DType type) { return cast_to(ctx, y, type); }

std::vector<AttrSpec> reduce_attrs() {
  return {{"axes", "ints", ""}, {"keepdims", "int", "1"}, {"noop_with_empty_axes", "int", "0"}};
}

}  // namespace kilter
