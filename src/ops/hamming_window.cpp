#include "ops/support/window_function.h"

namespace kilter {
namespace {

void reference(ReferenceContext& ctx) { reference_window_function(ctx, 25.0 / 46, -21.0 / 46, 0); }

}  // namespace

KILTER_OP(HammingWindow){
    .name = "HammingWindow",
    .since = 17,
    .family = Family::reference,
    .attrs = {{"output_datatype", "int", "1"}, {"periodic", "int", "1"}},
    .summary = "y[n] = 25/46 - 21/46 cos(2 pi n / N) for n < size (input 0), with N = size if periodic, else size - 1.",
    .infer = infer_window_function,
    .reference = reference,
    .shape_operands = {0},
    .cases = {"i32[]=10", "i64[]=17 | periodic=0", "i32[]=1 | periodic=0", "i64[]=7 | output_datatype=11", "i64[]=0"},
};

}  // namespace kilter
