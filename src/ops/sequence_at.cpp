#include "ops/support/sequences.h"

namespace kilter {
namespace {

std::vector<AnyValue> run(RunContext& ctx) {
  const std::vector<AnyValue>& elements = ctx.sequence(0).elements();
  if (elements.empty()) node_error(ctx.node, "the sequence has no elements, expected one or more");
  return {elements[sequence_position(ctx, 1, elements.size(), false)]};
}

}  // namespace

KILTER_OP(SequenceAt){
    .name = "SequenceAt",
    .since = 11,
    .min_inputs = 2,
    .max_inputs = 2,
    .summary = "y = element of the sequence at a position; negative positions count from the end.",
    .run = run,
};

}  // namespace kilter
