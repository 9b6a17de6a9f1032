#include <algorithm>

#include "ops/support/iterate.h"
#include "ops/support/operands.h"

namespace kilter {
namespace {

void infer(InferContext& ctx) {
  const Shape& shape = ctx.shape(0);
  const auto given = ints_of(ctx, 1, "axes");
  if (!given) ctx.error("axes are missing; give them as input 1 (an attribute before opset 13)");
  const int64_t rank = ctx.rank(0) + static_cast<int64_t>(given->size());
  const std::vector<int64_t> axes = normal_axes(ctx.node, *given, rank);
  Shape out;
  size_t next = 0;
  for (int64_t d = 0; d < rank; ++d) {
    const bool inserted = std::find(axes.begin(), axes.end(), d) != axes.end();
    out.push_back(inserted ? 1 : shape[next++]);
  }
  set_same_dtype(ctx, std::move(out));
}

void reference(ReferenceContext& ctx) { copy_all(ctx.in(0), ctx.out()); }

}  // namespace

KILTER_OP(Unsqueeze){
    .name = "Unsqueeze",
    .family = Family::reshape,
    .max_inputs = 2,
    .attrs = {{"axes", "ints", ""}},
    .summary =
        "y = x with dimensions of 1 inserted so that they are at axes (input 1; an attribute before opset 13) of y.",
    .infer = infer,
    .reference = reference,
    .shape_operands = {1},
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"f32[3,5] i64[2]=0,-1", "f32[3,5] i64[1]=1", "f32[3,5] | axes=[0,3] | 11", "i64[] i64[1]=0",
              "f32[7] i64[3]=3,0,1"},
};

}  // namespace kilter
