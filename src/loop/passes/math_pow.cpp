// pow and fmod of f32, computed in f64.
#include "loop/passes/math_form.h"

namespace kilter::loop_passes {
namespace {

constexpr double kLog2E = 1.4426950408889634;
constexpr double kLn2 = 0.6931471805599453;

/// Returns x^y for the exponents that need no logarithm; undefined for others.
Expr simple_power(const Form& f, const Expr& x, const Expr& y) {
  const Expr one = splat_of(y);
  const ExprNode& c = one.defined() ? *one : *y;
  if (c.kind != ExprKind::float_imm) return {};
  if (c.fval == 1) return x;
  if (c.fval == 2) return x * x;
  if (c.fval == 3) return x * x * x;
  if (c.fval == -1) return f.c(1) / x;
  if (c.fval != 0.5) return {};
  const Expr root = unary(Op::sqrt, x + f.c(0));  // -0 to this power is +0
  return select(equal(x, unary(Op::neg, f.inf())), f.inf(), root);
}

/// Returns |x|^y rounded to f32: 2^p with p = y log2|x|. p is clamped to a range at whose ends the result is certainly
/// 0 or infinite.
Expr power_of_magnitude(const Form& f, const Expr& a, const Expr& y) {
  const Form d{DType::f64, f.lanes, false};
  const Expr log2 = log_positive(d, cast(DType::f64, a)) * d.c(kLog2E);
  const Expr exponent = d.at_least(d.at_most(cast(DType::f64, y), 0x1p200), -0x1p200);  // avoids 0 * inf
  const Expr p = d.at_least(d.at_most(exponent * log2, 140), -160);
  return cast(DType::f32, exp_of(d, p * d.c(kLn2)));
}

}  // namespace

Expr pow_of(const Expr& x, const Expr& y) {
  const Form f = form_of(x);
  if (Expr simple = simple_power(f, x, y); simple.defined()) return simple;
  const Expr a = absolute(x);
  const Expr magnitude = power_of_magnitude(f, a, y);
  const Expr is_int = equal(unary(Op::trunc, y), y);
  const Expr half = y * f.c(0.5);
  const Expr odd = binary(Op::logical_and, is_int, binary(Op::ne, unary(Op::trunc, half), half));
  const Expr sign = select(odd, f.sign_of(x), f.u(0));
  Expr result = f.value(binary(Op::bit_or, f.bits(magnitude), sign));
  const Expr finite_negative = binary(Op::logical_and, less(x, f.c(0)), less(a, f.inf()));
  const Expr undefined = binary(Op::logical_and, finite_negative, unary(Op::logical_not, is_int));
  result = select(undefined, f.nan(), result);
  const Expr one = binary(Op::logical_or, equal(y, f.c(0)), equal(x, f.c(1)));
  return select(one, f.c(1), result);
}

// Long division by |y| 2^(28 j). Quotients of at most 29 bits times the 24 bits of y are exact in f64, and so are the
// remainders.
Expr mod_of(const Expr& x, const Expr& y) {
  constexpr int kDigits = 28;
  constexpr int kStages = 10;  // the quotient of two f32 has at most 277 bits
  const Form f = form_of(x);
  const Form d{DType::f64, f.lanes};
  const Expr b = cast(DType::f64, absolute(y));
  Expr rest = cast(DType::f64, absolute(x));
  for (int stage = kStages - 1; stage >= 0; --stage) {
    const Expr divisor = stage == 0 ? b : b * d.value(d.u((d.bias() + static_cast<uint64_t>(kDigits * stage)) << 52));
    rest = rest - unary(Op::trunc, rest / divisor) * divisor;
  }
  const Expr whole = binary(Op::logical_and, equal(absolute(y), f.inf()), less(absolute(x), f.inf()));
  return f.with_sign(select(whole, absolute(x), cast(DType::f32, rest)), x);
}

}  // namespace kilter::loop_passes
