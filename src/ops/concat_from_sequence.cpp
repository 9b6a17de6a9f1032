#include "ops/support/sequences.h"

namespace kilter {
namespace {

std::vector<AnyValue> run(RunContext& ctx) {
  std::vector<Tensor> parts;
  for (const AnyValue& element : ctx.sequence(0).elements()) {
    if (!element.is_tensor())
      node_error(ctx.node, fmt::format("an element of the sequence is {}, expected a tensor", text(element)));
    parts.push_back(element.tensor());
  }
  if (parts.empty()) node_error(ctx.node, "the sequence has no elements, expected one or more to join");
  const bool stack = ctx.node.int_attr("new_axis", 0) != 0;
  const int64_t axis = normal_axis(ctx.node, ctx.node.int_attr("axis", 0), parts[0].rank() + (stack ? 1 : 0));
  if (stack) {
    for (Tensor& part : parts) {
      Shape shape = part.shape();
      shape.insert(shape.begin() + std::min(axis, part.rank()), 1);
      part = part.reshaped(std::move(shape));
    }
  }
  return {run_operator(ctx.node, "Concat", std::move(parts), {{"axis", axis}})};
}

}  // namespace

KILTER_OP(ConcatFromSequence){
    .name = "ConcatFromSequence",
    .since = 11,
    .attrs = {{"axis", "int", "required"}, {"new_axis", "int", "0"}},
    .summary = "y = the elements of the sequence joined along an axis, or stacked along a new one.",
    .run = run,
};

}  // namespace kilter
