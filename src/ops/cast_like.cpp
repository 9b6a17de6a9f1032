#include "ops/support/builder.h"
#include "ops/support/onnx_dtype.h"

namespace kilter {
namespace {

std::vector<ValueId> expand(ExpandContext& ctx) {
  Attrs attrs = ctx.node.attrs;
  attrs["to"] = code_of_dtype(ctx.type(1).dtype);
  return {ctx.add("Cast", {ctx.in(0)}, std::move(attrs))};
}

}  // namespace

KILTER_OP(CastLike){
    .name = "CastLike",
    .since = 15,
    .family = Family::map,
    .min_inputs = 2,
    .max_inputs = 2,
    .attrs = {{"saturate", "int", "1"}, {"round_mode", "string", "up"}},
    .summary = "y = input 0 converted to the element type of input 1, whose values and shape do not matter.",
    .expand = expand,
    .cases = {"f32[2,3,5] f16[1]", "f32[17] i32[2,2]", "i64[7] f32[]", "f16[9] f64[3]", "bool[5] u8[5]",
              "f32[9] f8e4m3fn[1]", "f32[5]:1e6,-1e6,1,nan,inf f8e5m2[] | saturate=0",
              "f32[3]:0.3,1,5 f8e8m0[] | round_mode=down", "u4[5] f32[2]"},
};

}  // namespace kilter
