#include "ops/support/iterate.h"
#include "ops/support/operands.h"

namespace kilter {
namespace {

void infer(InferContext& ctx) {
  const Shape& shape = ctx.shape(0);
  const int64_t rank = ctx.rank(0);
  int64_t axis = ctx.node.int_attr("axis", 1);
  if (axis < -rank || axis > rank) {
    ctx.error(fmt::format("axis {} is out of range; legal values are {} to {} for an input of rank {}", axis, -rank,
                          rank, rank));
  }
  if (axis < 0) axis += rank;
  const auto at = static_cast<size_t>(axis);
  set_same_dtype(ctx, {product(shape, 0, at), product(shape, at, shape.size())});
}

void reference(ReferenceContext& ctx) { copy_all(ctx.in(0), ctx.out()); }

}  // namespace

KILTER_OP(Flatten){
    .name = "Flatten",
    .family = Family::reshape,
    .attrs = {{"axis", "int", "1"}},
    .summary = "y = x as a matrix: dimensions before axis are the rows, the others the columns.",
    .infer = infer,
    .reference = reference,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"f32[2,3,5,7]", "f32[2,3,5] | axis=0", "f32[2,3,5] | axis=3", "i64[2,3,5] | axis=-1", "f32[17] | | 7"},
};

}  // namespace kilter
