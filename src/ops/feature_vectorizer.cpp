#include "ops/support/ml.h"
#include "ops/support/operands.h"

namespace kilter {
namespace {

/// Returns input i as f32 [rows, width]: surplus columns are dropped, missing ones are 0.
ValueId part(ExpandContext& ctx, size_t i, int64_t rows, int64_t width) {
  const auto pair = [&](int64_t a, int64_t b) { return ctx.builder.list(std::vector<int64_t>{a, b}); };
  const Shape& shape = ctx.type(i).shape;
  const int64_t columns = product(shape, shape.size() == 1 ? 0 : 1, shape.size());
  ValueId x = ctx.add("Reshape", {converted(ctx, ctx.in(i), DType::f32), pair(rows, columns)});
  const std::vector<int64_t> axis = {1};
  if (columns > width) {
    return ctx.add("Slice", {x, ctx.builder.list(std::vector<int64_t>{0}),
                             ctx.builder.list(std::vector<int64_t>{width}), ctx.builder.list(axis)});
  }
  if (columns == width) return x;
  check_shape(ctx.node, {rows, width});
  return ctx.add("Pad", {x, ctx.builder.list(std::vector<int64_t>{0, 0, 0, width - columns})});
}

std::vector<ValueId> expand(ExpandContext& ctx) {
  const size_t count = ctx.node.inputs.size();
  const std::vector<int64_t> widths = ctx.node.ints_attr("inputdimensions");
  check_count(ctx.node, "numbers in attribute inputdimensions, one for each input", count, widths.size());
  int64_t rows = 0;
  std::vector<ValueId> parts;
  for (size_t i = 0; i < count; ++i) {
    check_features(ctx, i);
    const Shape& shape = ctx.type(i).shape;
    if (shape.empty()) node_error(ctx.node, fmt::format("input {} is a scalar, expected [rows, features]", i));
    const int64_t own = shape.size() == 1 ? 1 : shape[0];
    if (i == 0) rows = own;
    if (own != rows) {
      node_error(ctx.node, fmt::format("input {} has {} rows, expected {} to match input 0", i, own, rows));
    }
    if (widths[i] < 0) {
      node_error(ctx.node,
                 fmt::format("attribute inputdimensions has {} for input {}, expected 0 or more", widths[i], i));
    }
    if (widths[i] > 0 || count == 1) parts.push_back(part(ctx, i, rows, widths[i]));
  }
  if (parts.empty())
    node_error(ctx.node, "every number in attribute inputdimensions is 0, expected a sum of 1 or more");
  return {ctx.add("Concat", parts, {{"axis", int64_t{1}}})};
}

}  // namespace

KILTER_OP(FeatureVectorizer){
    .name = "FeatureVectorizer",
    .domain = kMlDomain,
    .max_inputs = -1,
    .attrs = {{"inputdimensions", "ints", "required"}},
    .summary =
        "y [n, sum of inputdimensions] = the inputs side by side as f32, each cut or filled with 0 to its number of "
        "columns in inputdimensions; an input [c] is one row.",
    .expand = expand,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"f32[2,3] i64[2,2] | inputdimensions=[3,2]", "f64[3,4] f32[3,1] | inputdimensions=[2,3]",
              "i32[5] f32[2] | inputdimensions=[5,2]", "f32[2,3,2] | inputdimensions=[6]"},
};

}  // namespace kilter
