#include <algorithm>

#include "ops/support/iterate.h"
#include "ops/support/operands.h"
#include "ops/support/regions.h"

namespace kilter {
namespace {

/// Returns attribute perm, checked, or the reversed order of dimensions if it is omitted.
std::vector<int64_t> perm_of(const Node& node, const Shape& shape) {
  const auto rank = static_cast<int64_t>(shape.size());
  std::vector<int64_t> reversed = all_axes(rank);
  std::reverse(reversed.begin(), reversed.end());
  std::vector<int64_t> perm = node.ints_attr("perm", reversed);
  check_count(node, "numbers in perm", shape.size(), perm.size());
  return normal_axes(node, perm, rank);
}

void infer(InferContext& ctx) { set_same_dtype(ctx, permuted(ctx.shape(0), perm_of(ctx.node, ctx.shape(0)))); }

void reference(ReferenceContext& ctx) {
  const Shape& from = ctx.in(0).shape();
  const Shape& to = ctx.out().shape();
  copy_strided(ctx.in(0), 0, permuted(dense_strides(from), perm_of(ctx.node, from)), ctx.out(), 0, dense_strides(to),
               to);
}

std::optional<std::vector<CopyRegion>> regions(const OpView& view, int32_t) {
  const Shape& from = view.inputs[0].shape;
  return tidy({whole_region(0, view.outputs[0].shape, permuted(dense_strides(from), perm_of(view.node, from)))});
}

}  // namespace

KILTER_OP(Transpose){
    .name = "Transpose",
    .family = Family::movement,
    .movement = Movement::transpose,
    .attrs = {{"perm", "ints", ""}},
    .summary =
        "y = x with its dimensions permuted: dimension i of y is dimension perm[i] of x; without perm, their order is "
        "reversed.",
    .infer = infer,
    .reference = reference,
    .regions = regions,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"f32[2,3,5]", "f32[1,17,7,33] | perm=[0,2,3,1]", "i8[7,33] | perm=[1,0]", "f16[2,3,4,5] | perm=[0,2,1,3]",
              "i64[3,1,5] | perm=[2,1,0] | 7", "f32[2,3,4] | perm=[0,1,2]", "bool[0,3]", "f32[2,40,53] | perm=[0,2,1]",
              "i32[20,67,9] | perm=[1,2,0]", "f32[3,9,5,34] | perm=[3,1,0,2]", "f32[300,90] | perm=[1,0]",
              "f32[1024,20] | perm=[1,0]", "f32[24,1024] | perm=[1,0]", "f32[2,37,3] | perm=[0,2,1]",
              "f32[1,1600,3] | perm=[0,2,1]", "f32[3,1700] | perm=[1,0]"},
};

}  // namespace kilter
