#include <algorithm>

#include "ops/support/operands.h"

namespace kilter {
namespace {

/// Returns dimensions [start, end) of the input, clamped like a Python slice.
Shape selected(const Node& node, const Shape& shape) {
  const auto rank = static_cast<int64_t>(shape.size());
  const auto clamped = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank); };
  const int64_t start = clamped(node.int_attr("start", 0));
  const int64_t end = std::max(start, clamped(node.int_attr("end", rank)));
  return {shape.begin() + start, shape.begin() + end};
}

void infer(InferContext& ctx) {
  ctx.set(0, DType::i64, {static_cast<int64_t>(selected(ctx.node, ctx.shape(0)).size())});
}

void reference(ReferenceContext& ctx) {
  const Shape dims = selected(ctx.node, ctx.in(0).shape());
  std::copy(dims.begin(), dims.end(), ctx.out().data<int64_t>());
}

}  // namespace

KILTER_OP(Shape){
    .name = "Shape",
    .attrs = {{"start", "int", "0"}, {"end", "int", ""}},
    .summary = "y = the dimensions [start, end) of x as i64; a constant, since shapes are static.",
    .infer = infer,
    .reference = reference,
    .shape_only = true,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"f32[2,3,5]", "f32[2,3,5] | start=1", "i64[2,3,5] | start=-2 end=-1", "f32[]", "f32[0,7] | | 7"},
};

}  // namespace kilter
