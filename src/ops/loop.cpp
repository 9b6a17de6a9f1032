#include "ops/op.h"

namespace kilter {

KILTER_OP(Loop){
    .name = "Loop",
    .since = 1,
    .control = Control::loop,
    .min_inputs = 0,
    .max_inputs = -1,
    .min_outputs = 1,
    .max_outputs = -1,
    .summary =
        "Runs body up to a number of times and while its condition holds; passes values on to the next iteration, "
        "stacks others.",
};

}  // namespace kilter
