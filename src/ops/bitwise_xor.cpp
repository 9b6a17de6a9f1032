#include "ops/support/elementwise.h"
#include "ops/support/scalar.h"

namespace kilter {
namespace {

void reference(ReferenceContext& ctx) {
  reference_binary<Ints>(ctx, [](auto a, auto b) { return a ^ b; });
}

std::optional<Expr> scalar(const OpView& op, std::span<const Expr> in) {
  return scalar_binary(op, in, [](const Expr& a, const Expr& b) { return binary(Op::bit_xor, a, b); });
}

}  // namespace

KILTER_OP(BitwiseXor){
    .name = "BitwiseXor",
    .since = 18,
    .family = Family::map,
    .min_inputs = 2,
    .max_inputs = 2,
    .summary = "c = a ^ b bit by bit, broadcast.",
    .infer = infer_broadcast_of<Ints>,
    .reference = reference,
    .scalar = scalar,
    .zero_preserving = true,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"i32[2,3,5] i32[2,3,5]", "u8[17] u8[17]", "i16[3,4,5] i16[5]", "u64[3,1] u64[1,4]", "i8[33] i8[]",
              "i64[7] i64[7]"},
};

}  // namespace kilter
