#include "ops/support/elementwise.h"
#include "ops/support/scalar.h"

namespace kilter {
namespace {

void reference(ReferenceContext& ctx) {
  reference_binary<Bool>(ctx, [](auto a, auto b) { return a && b; });
}

std::optional<Expr> scalar(const OpView& op, std::span<const Expr> in) {
  return scalar_binary(op, in, [](const Expr& a, const Expr& b) { return binary(Op::logical_and, a, b); });
}

}  // namespace

KILTER_OP(And){
    .name = "And",
    .since = 7,
    .family = Family::map,
    .min_inputs = 2,
    .max_inputs = 2,
    .summary = "c = a and b of booleans, broadcast.",
    .infer = infer_broadcast_of<Bool>,
    .reference = reference,
    .scalar = scalar,
    .zero_preserving = true,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"bool[2,3,5] bool[2,3,5]", "bool[17] bool[17]", "bool[3,4,5] bool[5]", "bool[] bool[33]",
              "bool[1,4,1] bool[3,1,6]"},
};

}  // namespace kilter
