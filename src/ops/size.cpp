#include "ops/support/operands.h"

namespace kilter {
namespace {

void infer(InferContext& ctx) {
  ctx.shape(0);
  ctx.set(0, DType::i64, {});
}

void reference(ReferenceContext& ctx) { *ctx.out().data<int64_t>() = ctx.in(0).elems(); }

}  // namespace

KILTER_OP(Size){
    .name = "Size",
    .summary = "y = the number of elements of x as an i64 scalar; a constant, since shapes are static.",
    .infer = infer,
    .reference = reference,
    .shape_only = true,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"f32[2,3,5]", "u8[]", "f32[0,7]", "f32[17] | | 7"},
};

}  // namespace kilter
