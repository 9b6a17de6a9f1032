#include "ops/support/elementwise.h"

namespace kilter {
namespace {

void reference(ReferenceContext& ctx) {
  reference_binary<Numbers>(ctx, [](auto a, auto b) { return wrap_add(a, b); });
}

std::optional<Expr> scalar(const OpView&, std::span<const Expr> in) { return in[0] + in[1]; }

}  // namespace

KILTER_OP(Add){
    .name = "Add",
    .since = 7,
    .family = Family::map,
    .combiner = Combiner::sum,
    .min_inputs = 2,
    .max_inputs = 2,
    .summary = "c = a + b, broadcast; integers wrap.",
    .infer = infer_broadcast_of<Numbers>,
    .reference = reference,
    .scalar = scalar,
    .zero_preserving = true,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"f32[2,3,5] f32[2,3,5]", "f32[2,3,5] f32[5]", "f32[4,1,5] f32[3,1]", "f32[1,16,7,7] f32[16,1,1]",
              "f16[6] f16[6]", "f64[2,3] f64[]", "i8[3]:127,-128,5 i8[1]=1", "u8[4] u8[4]", "i64[2,2] i64[2]",
              "f32[0,3] f32[3]"},
};

}  // namespace kilter
