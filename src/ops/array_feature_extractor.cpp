#include "ops/support/ml.h"
#include "ops/support/operands.h"

namespace kilter {
namespace {

std::vector<ValueId> expand(ExpandContext& ctx) {
  const Shape& x = ctx.type(0).shape;
  if (x.empty()) node_error(ctx.node, "input 0 is a scalar, expected at least one dimension");
  if (ctx.type(1).dtype != DType::i64) {
    node_error(ctx.node, fmt::format("indices (input 1) have element type {}, expected i64", name(ctx.type(1).dtype)));
  }
  const std::vector<int64_t> flat = {elems(ctx.type(1).shape)};
  const ValueId indices = ctx.add("Reshape", {ctx.in(1), ctx.builder.list(flat)});
  const ValueId y = ctx.add("Gather", {ctx.in(0), indices}, {{"axis", static_cast<int64_t>(x.size()) - 1}});
  if (x.size() > 1) return {y};
  return {ctx.add("Reshape", {y, ctx.builder.list(std::vector<int64_t>{1, flat[0]})})};
}

}  // namespace

KILTER_OP(ArrayFeatureExtractor){
    .name = "ArrayFeatureExtractor",
    .domain = kMlDomain,
    .min_inputs = 2,
    .max_inputs = 2,
    .summary =
        "y = the elements of x (input 0) along its last axis at indices (input 1, i64 in any shape); a vector x gives "
        "one row.",
    .expand = expand,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"f32[3,4] i64[2]:0,3", "i64[5] i64[1,2]:4,1", "f64[2,3,4] i64[3]=1,1,0", "str[2,3] i64[2]:2,0"},
};

}  // namespace kilter
