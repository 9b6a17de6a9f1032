#include "ops/support/elementwise.h"

namespace kilter {
namespace {

void reference(ReferenceContext& ctx) { copy_all(ctx.in(0), ctx.out()); }

}  // namespace

KILTER_OP(Identity){
    .name = "Identity",
    .family = Family::reshape,
    .summary = "y = x: the same elements, any element type, strings included.",
    .infer = infer_same,
    .reference = reference,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"f32[2,3]", "i64[5]", "bool[4]", "f16[]"},
};

}  // namespace kilter
