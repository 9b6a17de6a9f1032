#include "ops/support/elementwise.h"
#include "ops/support/scalar.h"

namespace kilter {
namespace {

template <class T>
T sign(T x) {
  if (x > 0) return 1;
  if constexpr (std::is_signed_v<T>) {
    if (x < 0) return static_cast<T>(-1);
  }
  return x;
}

void reference(ReferenceContext& ctx) {
  reference_unary<Numbers>(ctx, [](auto x) { return sign(x); });
}

Expr sign_of(const Expr& x) {
  const Expr rest =
      is_float(x.elem()) || is_signed_integer(x.elem()) ? select(binary(Op::lt, x, like(x, 0)), like(x, -1), x) : x;
  return select(binary(Op::gt, x, like(x, 0)), like(x, 1), rest);
}

std::optional<Expr> scalar(const OpView& op, std::span<const Expr> in) { return scalar_unary(op, in, sign_of); }

}  // namespace

KILTER_OP(Sign){
    .name = "Sign",
    .since = 9,
    .family = Family::map,
    .summary = "y = -1, 0 or 1 if x is negative, zero or positive; NaN stays NaN.",
    .infer = infer_same_of<Numbers>,
    .reference = reference,
    .scalar = scalar,
    .zero_preserving = true,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"f32[2,3,5]", "f32[5]:-inf,-0.0,0,nan,5", "f16[17]", "f64[7]", "i8[3]:-128,0,5", "u8[33]",
              "i64[3]:-7,0,7"},
};

}  // namespace kilter
