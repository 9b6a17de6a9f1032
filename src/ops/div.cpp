#include "ops/support/elementwise.h"
#include "ops/support/scalar.h"

namespace kilter {
namespace {

template <class T>
T divide(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    if (b == 0) return 0;
    if constexpr (std::is_signed_v<T>) {
      if (b == -1) return wrap_neg(a);
    }
  }
  return static_cast<T>(a / b);
}

void reference(ReferenceContext& ctx) {
  reference_binary<Numbers>(ctx, [](auto a, auto b) { return divide(a, b); });
}

std::optional<Expr> scalar(const OpView& op, std::span<const Expr> in) {
  return scalar_binary(op, in, [](const Expr& a, const Expr& b) { return a / b; });
}

}  // namespace

KILTER_OP(Div){
    .name = "Div",
    .since = 7,
    .family = Family::map,
    .min_inputs = 2,
    .max_inputs = 2,
    .summary = "c = a / b, broadcast; integers truncate toward zero, and a / 0 is 0 for them.",
    .infer = infer_broadcast_of<Numbers>,
    .reference = reference,
    .scalar = scalar,
    .tolerance = {.rtol = 2e-7, .atol = 0},
    .cases = {"f32[2,3,5] f32[2,3,5]", "f32[2,3,5] f32[5]", "f32[4,1,5] f32[3,1]", "f32[] f32[17]",
              "f32[4]:1,-1,0,5 f32[4]=0", "f16[33] f16[33]", "bf16[6] bf16[1]", "f64[2,3] f64[]",
              "i8[5]:-128,127,-7,7,5 i8[5]=-1,-1,2,-2,0", "i32[7] i32[1]=3", "i64[2,2] i64[2]=-7,2", "u16[4] u16[1]=7"},
};

}  // namespace kilter
