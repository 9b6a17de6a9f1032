#include "ops/support/elementwise.h"
#include "ops/support/scalar.h"

namespace kilter {
namespace {

template <class T>
T magnitude(T x) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::abs(x);
  } else if constexpr (std::is_signed_v<T>) {
    return x < 0 ? wrap_neg(x) : x;
  } else {
    return x;
  }
}

void reference(ReferenceContext& ctx) {
  reference_unary<Numbers>(ctx, [](auto x) { return magnitude(x); });
}

std::optional<Expr> scalar(const OpView& op, std::span<const Expr> in) {
  return scalar_unary(
      op, in, [](const Expr& x) { return is_float(x.elem()) || is_signed_integer(x.elem()) ? unary(Op::abs, x) : x; });
}

}  // namespace

KILTER_OP(Abs){
    .name = "Abs",
    .since = 6,
    .family = Family::map,
    .summary = "y = |x|; the most negative integer stays itself.",
    .infer = infer_same_of<Numbers>,
    .reference = reference,
    .scalar = scalar,
    .zero_preserving = true,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"f32[2,3,5]", "f32[3]:-0.0,nan,-inf", "f16[17]", "f64[7]", "i8[3]:-128,-1,5", "u8[33]",
              "i64[5]:-7,-1,0,1,7"},
};

}  // namespace kilter
