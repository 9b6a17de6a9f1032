#include "ops/support/sequences.h"

namespace kilter {
namespace {

std::vector<AnyValue> run(RunContext& ctx) {
  return {Tensor::scalar(static_cast<int64_t>(ctx.sequence(0).elements().size()))};
}

}  // namespace

KILTER_OP(SequenceLength){
    .name = "SequenceLength",
    .since = 11,
    .summary = "y i64 = number of elements of the sequence.",
    .run = run,
};

}  // namespace kilter
