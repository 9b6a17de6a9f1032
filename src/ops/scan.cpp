#include "ops/op.h"

namespace kilter {

KILTER_OP(Scan){
    .name = "Scan",
    .since = 8,
    .control = Control::scan,
    .min_inputs = 1,
    .max_inputs = -1,
    .min_outputs = 1,
    .max_outputs = -1,
    .attrs = {{"num_scan_inputs", "int", "required"},
              {"directions", "ints", ""},
              {"scan_input_directions", "ints", ""},
              {"scan_output_directions", "ints", ""},
              {"scan_input_axes", "ints", ""},
              {"scan_output_axes", "ints", ""}},
    .summary =
        "Runs body for each element along an axis of its inputs; passes values on to the next iteration, stacks "
        "others.",
};

}  // namespace kilter
