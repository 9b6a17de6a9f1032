#include <cmath>

#include "ops/support/softmax.h"

namespace kilter {
namespace {

void reference(ReferenceContext& ctx) {
  reference_softmax(ctx, [](std::vector<double>& row) {
    const double top = row_max(row);
    double total = 0;
    for (double v : row) total += std::exp(v - top);
    for (double& v : row) v = v - top - std::log(total);
  });
}

}  // namespace

KILTER_OP(LogSoftmax){
    .name = "LogSoftmax",
    .since = 13,
    .family = Family::softmax,
    .logarithmic = true,
    .attrs = {{"axis", "int", "-1"}},
    .summary = "y = x - log of the sum of exp(x) along axis.",
    .infer = infer_softmax,
    .reference = reference,
    .cases = {"f32[2,7,5]", "f32[3,17,4] | axis=1", "f32[33,2] | axis=0", "f64[2,9] | axis=-1", "f16[4,17]",
              "f32[3]:1000,-1000,999"},
};

KILTER_OP(LogSoftmax_1){
    .name = "LogSoftmax",
    .until = 12,
    .family = Family::softmax,
    .logarithmic = true,
    .attrs = {{"axis", "int", "1"}},
    .summary = "y = x - log of the sum of exp(x) over all dimensions from axis on together.",
    .infer = infer_softmax,
    .reference = reference,
    .cases = {"f32[2,3,5] | | 11", "f32[0,3] | axis=1 | 11", "f32[2,3,7] | axis=2 | 9", "f32[3,17] | axis=0 | 7"},
};

}  // namespace kilter
