#include "ops/op.h"

namespace kilter {

KILTER_OP(SequenceMap){
    .name = "SequenceMap",
    .since = 17,
    .control = Control::map,
    .min_inputs = 1,
    .max_inputs = -1,
    .min_outputs = 1,
    .max_outputs = -1,
    .summary = "Runs body for each element of its sequences; the results are sequences.",
};

}  // namespace kilter
