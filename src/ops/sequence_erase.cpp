#include "ops/support/sequences.h"

namespace kilter {
namespace {

std::vector<AnyValue> run(RunContext& ctx) {
  std::vector<AnyValue>& elements = ctx.sequence(0).change_elements();
  if (elements.empty()) node_error(ctx.node, "the sequence has no elements, expected one or more");
  const size_t at = ctx.has(1) ? sequence_position(ctx, 1, elements.size(), false) : elements.size() - 1;
  elements.erase(elements.begin() + static_cast<std::ptrdiff_t>(at));
  return {std::move(ctx.inputs[0])};
}

}  // namespace

KILTER_OP(SequenceErase){
    .name = "SequenceErase",
    .since = 11,
    .min_inputs = 1,
    .max_inputs = 2,
    .summary = "y = the sequence without the element at a position; the last one if no position is given.",
    .run = run,
};

}  // namespace kilter
