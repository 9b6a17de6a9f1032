#include "ops/support/elementwise.h"
#include "ops/support/scalar.h"

namespace kilter {
namespace {

void reference(ReferenceContext& ctx) {
  reference_unary<Bool>(ctx, [](bool x) { return !x; });
}

std::optional<Expr> scalar(const OpView&, std::span<const Expr> in) { return unary(Op::logical_not, in[0]); }

}  // namespace

KILTER_OP(Not){
    .name = "Not",
    .since = 1,
    .family = Family::map,
    .summary = "y = not x.",
    .infer = infer_same_of<Bool>,
    .reference = reference,
    .scalar = scalar,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"bool[2,3,5]", "bool[1]", "bool[17]", "bool[33]", "bool[]"},
};

}  // namespace kilter
