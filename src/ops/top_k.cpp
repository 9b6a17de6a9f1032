#include <algorithm>

#include "ops/support/reduction.h"
#include "ops/support/total_order.h"

namespace kilter {
namespace {

int64_t axis_of(const Node& node, const Shape& shape) {
  return normal_axis(node, node.int_attr("axis", -1), static_cast<int64_t>(shape.size()));
}

void infer(InferContext& ctx) {
  check_types(Numbers{}, ctx, 0);
  Shape shape = ctx.shape(0);
  const auto axis = static_cast<size_t>(axis_of(ctx.node, shape));
  if (!ctx.has(1) && !ctx.node.has_attr("k"))
    ctx.error("k is missing; give it as input 1 (an attribute before opset 10)");
  const int64_t k = ctx.has(1) ? operand_int(ctx.node, ctx.needed(1), "k") : ctx.node.int_attr("k", 0);
  if (k < 0 || k > shape[axis]) {
    ctx.error(fmt::format("k is {}; legal values are 0 to {}, the extent of axis {}", k, shape[axis], axis));
  }
  shape[axis] = k;
  ctx.set(0, ctx.dtype(0), shape);
  if (ctx.outputs.size() > 1) ctx.set(1, DType::i64, shape);
}

void reference(ReferenceContext& ctx) {
  const Tensor& x = ctx.in(0);
  const int64_t axis = axis_of(ctx.node, x.shape());
  const bool largest = ctx.node.int_attr("largest", 1) != 0;
  const ReductionOffsets from = reduction_offsets(x.shape(), {axis});
  const ReductionOffsets to = reduction_offsets(ctx.out(ctx.wants(0) ? 0 : 1).shape(), {axis});
  with_order(ctx.node, x, [&](auto compare) {
    for (size_t row = 0; row < to.starts.size(); ++row) {
      std::vector<int64_t> ranks = all_axes(static_cast<int64_t>(from.steps.size()));
      const auto at = [&](int64_t i) { return from.starts[row] + from.steps[static_cast<size_t>(i)]; };
      std::partial_sort(ranks.begin(), ranks.begin() + static_cast<int64_t>(to.steps.size()), ranks.end(),
                        [&](int64_t a, int64_t b) {
                          const int sign = compare(at(a), at(b));
                          return sign == 0 ? a < b : (sign > 0) == largest;
                        });
      for (size_t k = 0; k < to.steps.size(); ++k) {
        const int64_t target = to.starts[row] + to.steps[k];
        if (ctx.wants(0)) copy_element(x, at(ranks[k]), ctx.out(0), target);
        if (ctx.wants(1)) ctx.out(1).data<int64_t>()[target] = ranks[k];
      }
    }
  });
}

}  // namespace

KILTER_OP(TopK){
    .name = "TopK",
    .max_inputs = 2,
    .max_outputs = 2,
    .attrs = {{"axis", "int", "-1"}, {"k", "int", ""}, {"largest", "int", "1"}, {"sorted", "int", "1"}},
    .summary =
        "y = the k (input 1; an attribute before opset 10) largest or smallest elements of x along axis in order, the "
        "lower index first among equals; output 1 their i64 indices.",
    .infer = infer,
    .reference = reference,
    .shape_operands = {1},
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"f32[3,4] i64[1]=3 | axis=1 | | 2", "f32[17,3] i64[1]=5 | axis=0 largest=0 | | 2",
              "i64[2,7]:3 i64[1]=2 | | | 2", "f32[4]:1,nan,3,-inf i64[1]=2", "f16[2,33] | k=1 | 9 | 2",
              "u64[5] i64[1]=0"},
};

}  // namespace kilter
