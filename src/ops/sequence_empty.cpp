#include "ops/support/sequences.h"

namespace kilter {
namespace {

std::vector<AnyValue> run(RunContext&) { return {AnyValue::sequence({})}; }

}  // namespace

KILTER_OP(SequenceEmpty){
    .name = "SequenceEmpty",
    .since = 11,
    .min_inputs = 0,
    .max_inputs = 0,
    .attrs = {{"dtype", "int", "1"}},
    .summary = "y = sequence without elements.",
    .run = run,
};

}  // namespace kilter
