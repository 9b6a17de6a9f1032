#include <algorithm>

#include "ops/support/iterate.h"
#include "ops/support/operands.h"

namespace kilter {
namespace {

void infer(InferContext& ctx) {
  const Shape& shape = ctx.shape(0);
  const auto given = ints_of(ctx, 1, "axes");
  std::vector<int64_t> axes;
  if (given) {
    axes = normal_axes(ctx.node, *given, ctx.rank(0));
  } else {
    for (size_t d = 0; d < shape.size(); ++d) {
      if (shape[d] == 1) axes.push_back(static_cast<int64_t>(d));
    }
  }
  Shape out;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (std::find(axes.begin(), axes.end(), static_cast<int64_t>(d)) == axes.end()) {
      out.push_back(shape[d]);
    } else if (shape[d] != 1) {
      ctx.error(
          fmt::format("axis {} of {} has {} elements; only dimensions of 1 can be squeezed", d, text(shape), shape[d]));
    }
  }
  set_same_dtype(ctx, std::move(out));
}

void reference(ReferenceContext& ctx) { copy_all(ctx.in(0), ctx.out()); }

}  // namespace

KILTER_OP(Squeeze){
    .name = "Squeeze",
    .family = Family::reshape,
    .max_inputs = 2,
    .attrs = {{"axes", "ints", ""}},
    .summary =
        "y = x without the dimensions of 1 that axes (input 1; an attribute before opset 13) names; without axes, all "
        "of them are removed.",
    .infer = infer,
    .reference = reference,
    .shape_operands = {1},
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"f32[1,3,1,5]", "f32[1,3,1,5] i64[1]=-2", "f32[1,3,1,5] | axes=[0,2] | 11", "i64[1] i64[1]=0",
              "f32[3,4]"},
};

}  // namespace kilter
