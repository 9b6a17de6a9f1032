#include <cmath>

#include "ops/support/ml.h"

namespace kilter {
namespace {

/// Returns the values that replace the missing ones, in the type of x.
ValueId imputed(ExpandContext& ctx, DType type, int64_t columns) {
  const std::string_view key = is_float(type) ? "imputed_value_floats" : "imputed_value_int64s";
  const std::vector<float> floats = ctx.node.floats_attr("imputed_value_floats");
  const std::vector<int64_t> ints = ctx.node.ints_attr("imputed_value_int64s");
  const auto count = static_cast<int64_t>(is_float(type) ? floats.size() : ints.size());
  if (count != 1 && count != columns) {
    node_error(ctx.node, fmt::format("attribute {} has {} values for elements of {}, expected 1 or {}, one for each "
                                     "feature",
                                     key, count, name(type), columns));
  }
  Tensor values = is_float(type) ? Tensor::of<float>({count}, floats) : Tensor::of<int64_t>({count}, ints);
  return converted(ctx, ctx.builder.constant(std::move(values), "imputed"), type);
}

/// Returns which elements of x are missing, as booleans.
ValueId missing(ExpandContext& ctx, DType type) {
  if (!is_float(type)) {
    const ValueId replaced =
        ctx.builder.constant(Tensor::scalar<int64_t>(ctx.node.int_attr("replaced_value_int64", 0)), "replaced");
    return ctx.add("Equal", {converted(ctx, ctx.in(0), DType::i64), replaced});
  }
  const float replaced = ctx.node.float_attr("replaced_value_float", 0);
  if (std::isnan(replaced)) return ctx.add("IsNaN", {ctx.in(0)});
  return ctx.add("Equal", {ctx.in(0), ctx.scalar(type, static_cast<double>(replaced))});
}

std::vector<ValueId> expand(ExpandContext& ctx) {
  check_features(ctx, 0);
  const TensorType type = ctx.type(0);
  if (type.shape.empty()) node_error(ctx.node, "input is a scalar, expected at least one dimension");
  return {ctx.add("Where", {missing(ctx, type.dtype), imputed(ctx, type.dtype, type.shape.back()), ctx.in(0)})};
}

}  // namespace

KILTER_OP(Imputer){
    .name = "Imputer",
    .domain = kMlDomain,
    .attrs = {{"imputed_value_floats", "floats", ""},
              {"imputed_value_int64s", "ints", ""},
              {"replaced_value_float", "float", "0"},
              {"replaced_value_int64", "int", "0"}},
    .summary =
        "y = x with every element that equals replaced_value (NaN equals NaN) replaced by the imputed value: one for "
        "all, or one for each element of the last axis.",
    .expand = expand,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"f32[2,3]:1,nan,3,nan,5,6 | imputed_value_floats=[7,8,9] replaced_value_float=nan",
              "f32[4]:0,1,0,2 | imputed_value_floats=[5]",
              "i64[2,2]:4,5,5,4 | imputed_value_int64s=[1,2] replaced_value_int64=4",
              "f64[2]:1,3 | imputed_value_floats=[0.5] replaced_value_float=3",
              "i32[3]:1,2,3 | imputed_value_int64s=[9] replaced_value_int64=2"},
};

}  // namespace kilter
