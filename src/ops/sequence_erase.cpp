#include "ops/support/sequences.h"

namespace kilter {
namespace {

std::vector<AnyValue> run(RunContext& ctx) {
  std::vector<AnyValue>& elements = ctx.sequence(0).change_elements();
  const size_t last = elements.empty() ? 0 : elements.size() - 1;
  const size_t at = ctx.has(1) || elements.empty() ? sequence_position(ctx, 1, elements.size(), false) : last;
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
