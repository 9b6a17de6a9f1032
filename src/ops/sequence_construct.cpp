#include "ops/support/sequences.h"

namespace kilter {
namespace {

std::vector<AnyValue> run(RunContext& ctx) {
  for (size_t i = 0; i < ctx.inputs.size(); ++i) ctx.tensor(i);  // sequences of sequences do not exist
  return {AnyValue::sequence(std::move(ctx.inputs))};
}

}  // namespace

KILTER_OP(SequenceConstruct){
    .name = "SequenceConstruct",
    .since = 11,
    .min_inputs = 1,
    .max_inputs = -1,
    .summary = "y = sequence of the inputs, in their order.",
    .run = run,
};

}  // namespace kilter
