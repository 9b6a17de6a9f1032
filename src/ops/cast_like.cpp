#include "ops/support/builder.h"
#include "ops/support/onnx_dtype.h"

namespace kilter {
namespace {

std::vector<ValueId> expand(ExpandContext& ctx) {
  return {ctx.add("Cast", {ctx.in(0)}, {{"to", code_of_dtype(ctx.type(1).dtype)}})};
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
    .cases = {"f32[2,3,5] f16[1]", "f32[17] i32[2,2]", "i64[7] f32[]", "f16[9] f64[3]", "bool[5] u8[5]"},
};

}  // namespace kilter
