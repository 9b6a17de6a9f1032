#include "ops/support/elementwise.h"
#include "ops/support/scalar.h"

namespace kilter {
namespace {

template <class T>
T remainder_toward_zero(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::fmod(a, b);
  } else {
    if (b == 0) return 0;
    if constexpr (std::is_signed_v<T>) {
      if (b == -1) return 0;
    }
    return static_cast<T>(a % b);
  }
}

template <class T>
T remainder_of_floor(T a, T b) {
  const T r = remainder_toward_zero(a, b);
  if constexpr (std::is_floating_point_v<T>) {
    if (r == 0) return std::copysign(T{0}, b);
  }
  if constexpr (std::is_signed_v<T>) {
    if (r != 0 && (r < 0) != (b < 0)) return static_cast<T>(r + b);
  }
  return r;
}

bool toward_zero(const Node& node) {
  const int64_t fmod = node.int_attr("fmod", 0);
  if (fmod != 0 && fmod != 1) node_error(node, fmt::format("attribute fmod is {}; legal values are 0 and 1", fmod));
  return fmod == 1;
}

void infer(InferContext& ctx) {
  toward_zero(ctx.node);
  infer_broadcast_of<Numbers>(ctx);
}

void reference(ReferenceContext& ctx) {
  if (toward_zero(ctx.node)) {
    reference_binary<Numbers>(ctx, [](auto a, auto b) { return remainder_toward_zero(a, b); });
  } else {
    reference_binary<Numbers>(ctx, [](auto a, auto b) { return remainder_of_floor(a, b); });
  }
}

/// Converts the remainder of truncating division to that of floor division, which has the sign of the divisor.
Expr floored_integer(const Expr& r, const Expr& divisor) {
  const Expr zero = like(r, 0);
  const Expr signs_differ = binary(Op::lt, binary(Op::bit_xor, r, divisor), zero);
  return select(binary(Op::logical_and, binary(Op::ne, r, zero), signs_differ), r + divisor, r);
}
Expr floored_float(const Expr& r, const Expr& divisor) {
  const Expr zero = like(r, 0);
  const Expr negative = binary(Op::lt, divisor, zero);
  const Expr signs_differ = binary(Op::ne, binary(Op::lt, r, zero), negative);
  return select(binary(Op::eq, r, zero), select(negative, like(r, -0.0), zero), select(signs_differ, r + divisor, r));
}

std::optional<Expr> scalar(const OpView& op, std::span<const Expr> in) {
  const DType type = in[0].elem();
  if (is_float(type) && !has_f32_math(type)) return std::nullopt;
  return scalar_binary(op, in, [&](const Expr& a, const Expr& b) {
    const Expr r = a % b;
    if (toward_zero(op.node) || !(is_float(type) || is_signed_integer(type))) return r;
    return is_float(type) ? floored_float(r, b) : floored_integer(r, b);
  });
}

}  // namespace

KILTER_OP(Mod){
    .name = "Mod",
    .since = 10,
    .family = Family::map,
    .min_inputs = 2,
    .max_inputs = 2,
    .attrs = {{"fmod", "int", "0"}},
    .summary = "c = a - floor(a / b) * b, or with fmod = 1 a - trunc(a / b) * b, broadcast; integer a mod 0 is 0.",
    .infer = infer,
    .reference = reference,
    .scalar = scalar,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"i32[6]:-4,7,5,4,-7,8 i32[6]=2,-3,8,-2,3,5", "i64[6]:-4,7,5,4,-7,8 i64[6]=2,-3,8,-2,3,5 | fmod=1",
              "i8[4]:-128,127,5,-5 i8[4]=-1,-1,0,0", "u8[17] u8[1]=7", "u64[3,1] u64[1,4]=3,5,0,7",
              "f32[2,3,5] f32[5] | fmod=1", "f32[4]:5.5,-5.5,0,inf f32[4]=2,2,-2,2", "f16[7] f16[1]=0.5 | fmod=1",
              "f64[9] f64[1]=-0.75 | fmod=0"},
};

}  // namespace kilter
