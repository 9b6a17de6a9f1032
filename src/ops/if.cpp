#include "ops/op.h"

namespace kilter {

KILTER_OP(If){
    .name = "If",
    .since = 1,
    .control = Control::branch,
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = -1,
    .summary = "Runs then_branch if the condition is true, otherwise else_branch; its outputs are those of the branch.",
};

}  // namespace kilter
