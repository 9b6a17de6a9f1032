#include "ops/support/indexing.h"

namespace kilter {
namespace {

int64_t axis_of(const Node& node, const Shape& indices) {
  return normal_axis(node, node.int_attr("axis", -1), static_cast<int64_t>(indices.size()) + 1);
}

void infer(InferContext& ctx) {
  check_types(Numbers{}, ctx, 0);
  const int64_t depth = operand_int(ctx.node, ctx.needed(1), "depth");
  if (ctx.shape(2) != Shape{2}) {
    ctx.error(fmt::format("values has shape {}, expected 2: [off, on]", text(ctx.shape(2))));
  }
  Shape shape = ctx.shape(0);
  shape.insert(shape.begin() + axis_of(ctx.node, shape), depth);
  check_shape(ctx.node, shape);
  ctx.set(0, ctx.dtype(2), std::move(shape));
}

void reference(ReferenceContext& ctx) {
  const Shape& shape = ctx.in(0).shape();
  const auto axis = static_cast<size_t>(axis_of(ctx.node, shape));
  const int64_t depth = ctx.out().shape()[axis];
  const int64_t inner = product(shape, axis, shape.size());
  for (int64_t to = 0; to < ctx.out().elems(); ++to) {
    const int64_t outer = to / (inner * depth);
    const int64_t index = ctx.in(0).as_int(outer * inner + to % inner);
    const int64_t at = to / inner % depth;
    copy_element(ctx.in(2), index == at || index == at - depth ? 1 : 0, ctx.out(), to);
  }
}

}  // namespace

KILTER_OP(OneHot){
    .name = "OneHot",
    .since = 9,
    .min_inputs = 3,
    .max_inputs = 3,
    .attrs = {{"axis", "int", "-1"}},
    .summary =
        "y with a new dimension of extent depth (input 1) at axis: values[1] (input 2) where the index along it "
        "equals indices (input 0, negative from the end), else values[0].",
    .infer = infer,
    .reference = reference,
    .shape_operands = {1},
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"i64[3]:0,7,8 i64[]=12 f32[2]:2,5", "i32[2,2]:1,-1,-9,3 i64[1]=5 i32[2]:0,1 | axis=1",
              "f32[3]:1,2,0 f32[]=3 f16[2]:0,1 | axis=0", "i64[]:2 i64[]=7 bool[2]:0,1 | axis=-1 | 9"},
};

}  // namespace kilter
