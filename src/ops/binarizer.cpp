#include "ops/support/ml.h"

namespace kilter {
namespace {

// Integers are compared as f64, since the threshold may be a fraction.
std::vector<ValueId> expand(ExpandContext& ctx) {
  check_features(ctx, 0);
  const DType type = ctx.type(0).dtype;
  const DType wide = is_float(type) ? type : DType::f64;
  const ValueId threshold = ctx.scalar(wide, static_cast<double>(ctx.node.float_attr("threshold", 0)));
  const ValueId above = ctx.add("Greater", {converted(ctx, ctx.in(0), wide), threshold});
  return {converted(ctx, above, type)};
}

}  // namespace

KILTER_OP(Binarizer){
    .name = "Binarizer",
    .domain = kMlDomain,
    .attrs = {{"threshold", "float", "0"}},
    .summary = "y = 1 where x > threshold, else 0, in the type of x; 0 for NaN.",
    .expand = expand,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"f32[3,5]", "f32[4]:nan,0.5,0.75,-1 | threshold=0.5", "i64[3]:0,1,2 | threshold=0.5",
              "f64[2,2] | threshold=-0.25", "i32[7] | threshold=50"},
};

}  // namespace kilter
