#include "ops/support/ml.h"

namespace kilter {
namespace {

/// Returns a list with one number, or one for each column; `fallback` if the attribute is absent.
ValueId numbers(ExpandContext& ctx, std::string_view key, float fallback, int64_t columns) {
  std::vector<float> values = ctx.node.floats_attr(key);
  if (values.empty()) values.push_back(fallback);
  const auto count = static_cast<int64_t>(values.size());
  if (count != 1 && count != columns) {
    node_error(ctx.node,
               fmt::format("attribute {} has {} numbers, expected 1 or {}, one for each feature", key, count, columns));
  }
  return ctx.builder.constant(Tensor::of<float>({count}, values), std::string(key));
}

std::vector<ValueId> expand(ExpandContext& ctx) {
  check_features(ctx, 0);
  const Shape& shape = ctx.type(0).shape;
  if (shape.empty()) node_error(ctx.node, "input is a scalar, expected at least one dimension");
  const ValueId x = converted(ctx, ctx.in(0), DType::f32);
  const ValueId centred = ctx.add("Sub", {x, numbers(ctx, "offset", 0, shape.back())});
  return {ctx.add("Mul", {centred, numbers(ctx, "scale", 1, shape.back())})};
}

}  // namespace

KILTER_OP(Scaler){
    .name = "Scaler",
    .domain = kMlDomain,
    .attrs = {{"offset", "floats", "[0]"}, {"scale", "floats", "[1]"}},
    .summary = "y = (x - offset) * scale as f32, each with one number or one for each element of the last axis.",
    .expand = expand,
    .cases = {"f32[3,5] | offset=[1,2,3,4,5] scale=[0.5]", "i64[4] | offset=[3] scale=[1,2,3,4]", "f64[2,3]",
              "i32[2,2,3] | scale=[1,2,3]"},
};

}  // namespace kilter
