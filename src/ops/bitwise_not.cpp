#include "ops/support/elementwise.h"
#include "ops/support/scalar.h"

namespace kilter {
namespace {

void reference(ReferenceContext& ctx) {
  reference_unary<Ints>(ctx, [](auto x) { return ~x; });
}

std::optional<Expr> scalar(const OpView&, std::span<const Expr> in) { return unary(Op::bit_not, in[0]); }

}  // namespace

KILTER_OP(BitwiseNot){
    .name = "BitwiseNot",
    .since = 18,
    .family = Family::map,
    .summary = "y = x with every bit inverted.",
    .infer = infer_same_of<Ints>,
    .reference = reference,
    .scalar = scalar,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"i32[2,3,5]", "u8[17]", "i16[7]", "u64[3]", "i8[33]", "i64[]"},
};

}  // namespace kilter
