#include "ops/support/elementwise.h"

namespace kilter {
namespace {

void reference(ReferenceContext& ctx) {
  reference_unary<SignedNumbers>(ctx, [](auto x) { return x < 0 ? 0 : x; });
}

// max(a, b) returns b if either is NaN, so x must be on the right.
std::optional<Expr> scalar(const OpView&, std::span<const Expr> in) { return max(imm(in[0].elem(), 0), in[0]); }

}  // namespace

KILTER_OP(Relu){
    .name = "Relu",
    .since = 6,
    .family = Family::map,
    .summary = "y = max(x, 0); NaN stays NaN.",
    .infer = infer_same_of<SignedNumbers>,
    .reference = reference,
    .scalar = scalar,
    .zero_preserving = true,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"f32[2,3,5]", "f32[3]:nan,-inf,-0", "f16[4,7]", "f64[9]", "i32[3]:-1,0,1"},
};

}  // namespace kilter
