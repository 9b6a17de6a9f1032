#include "ops/support/ml.h"

namespace kilter {
namespace {

ValueId norm(ExpandContext& ctx, ValueId x, const std::string& how) {
  const std::string_view op = how == "MAX" ? "ReduceMax" : how == "L1" ? "ReduceL1" : how == "L2" ? "ReduceL2" : "";
  if (op.empty()) {
    node_error(ctx.node, fmt::format("attribute norm is '{}'; legal values are MAX, L1 and L2", how));
  }
  return ctx.add(op, {x, ctx.builder.list(std::vector<int64_t>{-1})});
}

// Rows whose norm is 0 stay as they are.
std::vector<ValueId> expand(ExpandContext& ctx) {
  check_features(ctx, 0);
  feature_rows(ctx.node, ctx.type(0).shape);
  const ValueId x = converted(ctx, ctx.in(0), DType::f32);
  const ValueId divisor = norm(ctx, x, ctx.node.string_attr("norm", "MAX"));
  const ValueId none = ctx.add("Equal", {divisor, ctx.scalar(DType::f32, 0)});
  return {ctx.add("Div", {x, ctx.add("Where", {none, ctx.scalar(DType::f32, 1), divisor})})};
}

}  // namespace

KILTER_OP(Normalizer){
    .name = "Normalizer",
    .domain = kMlDomain,
    .attrs = {{"norm", "string", "MAX"}},
    .summary =
        "y = x / norm of each row as f32, for x [n, c] or [c]; the norm is the largest element (MAX), the sum of "
        "magnitudes (L1) or the root of the sum of squares (L2). Rows whose norm is 0 stay as they are.",
    .expand = expand,
    .cases = {"f32[3,5]", "f32[4,17] | norm=L1", "f64[7] | norm=L2", "i64[2,3]:1,-2,3,0,0,0 | norm=L2",
              "f32[2,2]:-1,-2,0,-3 | norm=MAX"},
};

}  // namespace kilter
