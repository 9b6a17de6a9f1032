#include "ops/support/elementwise.h"
#include "ops/support/scalar.h"

namespace kilter {
namespace {

template <class T>
T prelu(T x, T slope) {
  if constexpr (std::is_signed_v<T>) {
    return x < 0 ? wrap_mul(x, slope) : x;
  } else {
    return x;
  }
}

void infer(InferContext& ctx) {
  check_types(Numbers{}, ctx, 0);
  check_same_dtype(ctx);
  if (broadcast_inputs(ctx) != ctx.shape(0)) {
    ctx.error(fmt::format("slope of shape {} does not broadcast to the input's shape {}", text(ctx.shape(1)),
                          text(ctx.shape(0))));
  }
  infer_same(ctx);
}

void reference(ReferenceContext& ctx) {
  reference_binary<Numbers>(ctx, [](auto x, auto slope) { return prelu(x, slope); });
}

std::optional<Expr> scalar(const OpView& op, std::span<const Expr> in) {
  if (!is_float(in[0].elem()) && !is_signed_integer(in[0].elem())) return in[0];
  return scalar_binary(
      op, in, [](const Expr& x, const Expr& slope) { return select(binary(Op::lt, x, like(x, 0)), x * slope, x); });
}

}  // namespace

KILTER_OP(PRelu){
    .name = "PRelu",
    .since = 7,
    .family = Family::map,
    .absorbs_zero = true,
    .min_inputs = 2,
    .max_inputs = 2,
    .summary = "y = x < 0 ? slope * x : x; slope broadcasts to the shape of x.",
    .infer = infer,
    .reference = reference,
    .scalar = scalar,
    .zero_preserving = true,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"f32[2,3,5] f32[2,3,5]", "f32[1,16,7,7] f32[16,1,1]", "f32[17] f32[1]=0.25", "f16[3,4] f16[4]",
              "f64[9] f64[]", "i32[3]:-3,0,3 i32[3]=2", "u32[5] u32[5]", "f32[2,7] f32[7] | | 7"},
};

}  // namespace kilter
