#include <algorithm>

#include "ops/support/softmax.h"

namespace kilter {
namespace {

void reference(ReferenceContext& ctx) {
  reference_softmax(ctx, [](std::vector<double>& row) {
    const auto top = std::max_element(row.begin(), row.end()) - row.begin();
    std::fill(row.begin(), row.end(), 0.0);
    if (!row.empty()) row[static_cast<size_t>(top)] = 1;
  });
}

}  // namespace

KILTER_OP(Hardmax){
    .name = "Hardmax",
    .since = 13,
    .attrs = {{"axis", "int", "-1"}},
    .summary = "y = 1 at the first greatest element along axis, 0 elsewhere.",
    .infer = infer_softmax,
    .reference = reference,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"f32[2,7,5]", "f32[3,17,4] | axis=1", "f64[2,9] | axis=0", "f32[5]:1,3,2,3,0"},
};

KILTER_OP(Hardmax_1){
    .name = "Hardmax",
    .until = 12,
    .attrs = {{"axis", "int", "1"}},
    .summary = "y = 1 at the first greatest element over all dimensions from axis on together, 0 elsewhere.",
    .infer = infer_softmax,
    .reference = reference,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"f32[2,3,5] | | 11", "f32[2,3,7] | axis=2 | 9"},
};

}  // namespace kilter
