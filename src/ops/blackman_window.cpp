#include "ops/support/window_function.h"

namespace kilter {
namespace {

void reference(ReferenceContext& ctx) { reference_window_function(ctx, 0.42, -0.5, 0.08); }

}  // namespace

KILTER_OP(BlackmanWindow){
    .name = "BlackmanWindow",
    .since = 17,
    .family = Family::reference,
    .attrs = {{"output_datatype", "int", "1"}, {"periodic", "int", "1"}},
    .summary =
        "y[n] = 0.42 - 0.5 cos(2 pi n / N) + 0.08 cos(4 pi n / N) for n < size (input 0), with N = size if periodic, "
        "else size - 1.",
    .infer = infer_window_function,
    .reference = reference,
    .shape_operands = {0},
    .cases = {"i32[]=10", "i64[]=17 | periodic=0", "i32[]=1 | periodic=0", "i64[]=7 | output_datatype=11", "i64[]=0"},
};

}  // namespace kilter
