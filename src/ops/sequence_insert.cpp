#include "ops/support/sequences.h"

namespace kilter {
namespace {

std::vector<AnyValue> run(RunContext& ctx) {
  ctx.tensor(1);  // sequences of sequences do not exist
  std::vector<AnyValue>& elements = ctx.sequence(0).change_elements();
  const size_t at = ctx.has(2) ? sequence_position(ctx, 2, elements.size(), true) : elements.size();
  elements.insert(elements.begin() + static_cast<std::ptrdiff_t>(at), std::move(ctx.inputs[1]));
  return {std::move(ctx.inputs[0])};
}

}  // namespace

KILTER_OP(SequenceInsert){
    .name = "SequenceInsert",
    .since = 11,
    .min_inputs = 2,
    .max_inputs = 3,
    .summary = "y = the sequence with a tensor inserted before a position; at the end if no position is given.",
    .run = run,
};

}  // namespace kilter
