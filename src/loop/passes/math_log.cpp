// log and the functions built on it: x = 2^e (1 + m) with 1 + m in [sqrt(1/2), sqrt(2)), log(x) = e ln2 + log(1 + m).
#include <array>

#include "loop/passes/math_form.h"

namespace kilter::loop_passes {
namespace {

// f32: (log(1 + m) - m + m^2/2) / m^3 (2^-27). f64: (log(1 + s) - log(1 - s) - 2 s) / s^3 in s^2 with s = m / (2 + m)
// (2^-44, 2^-58), as in "Argument reduction for log" of Tang 1990.
constexpr std::array kLog32 = {0.3333331048488617,  -0.25000306963920593, 0.2000250220298767,
                               -0.1665191948413849, 0.14198090136051178,  -0.12670978903770447,
                               0.12313154339790344, -0.10268156975507736, 0.04081474244594574};
constexpr std::array kLog64Short = {0.6666666667580449, 0.3999999562072732, 0.28572109265922985, 0.22176184568715196,
                                    0.1958420636971499};
constexpr std::array kLog64 = {0.6666666666666734,  0.39999999999414304, 0.2857142874247805, 0.22222198563197176,
                               0.18183564879563516, 0.15314035555598027, 0.14796107793018992};
constexpr double kLn2 = 0.6931471805599453;

struct Split {
  Expr e;  ///< as a float
  Expr m;
};

Split split(const Form& f, const Expr& x) {
  const uint64_t root_half = f.single() ? 0x3f3504f3U : 0x3fe6a09e667f3bcdU;
  const uint64_t offset = (f.bias() + 1) * 2;  // keeps the exponent positive; its bit is the top one
  const Expr u = f.bits(x) + f.u(f.sign_mask() - root_half);
  const Expr exponent = f.shift_right(u, f.mantissa());
  const Expr e = f.value(exponent + f.u(f.magic_bits())) - f.c(f.magic() + static_cast<double>(offset));
  const Expr fraction = binary(Op::bit_and, u, f.u((uint64_t{1} << f.mantissa()) - 1));
  return {e, f.value(fraction + f.u(root_half)) - f.c(1)};
}

/// Returns log(1 + m) - m.
Expr log_tail(const Form& f, const Expr& m) {
  const Expr square = m * m;
  if (f.single()) return fma(square, f.c(-0.5), m * square * f.poly(m, kLog32));
  const Expr s = m / (m + f.c(2));
  const Expr z = s * s;
  const Expr r = z * (f.full ? f.poly(z, kLog64) : f.poly(z, kLog64Short));
  const Expr half = f.c(0.5) * square;
  return fma(s, half + r, unary(Op::neg, half));
}

/// Returns e ln2 + m + tail, adding the small parts first.
Expr assemble(const Form& f, const Expr& e, const Expr& m, const Expr& tail) {
  const Expr low = fma(e, f.pick(-2.12194440e-4, 1.90821492927058770002e-10), tail);
  return fma(e, f.pick(0.693359375, 6.93147180369123816490e-01), m + low);
}

}  // namespace

Expr log_positive(const Form& f, const Expr& x) {
  const Split s = split(f, x);
  const Expr result = assemble(f, s.e, s.m, log_tail(f, s.m));
  return select(equal(x, f.c(0)), unary(Op::neg, f.inf()), select(less(x, f.inf()), result, x));
}

Expr log_of(const Form& f, const Expr& x) {
  const Expr subnormal = less(x, f.pick(0x1p-126, 0x1p-1022));
  const double digits = f.mantissa() + 1;
  const Split s = split(f, select(subnormal, x * f.pick(0x1p24, 0x1p53), x));
  const Expr e = s.e - select(subnormal, f.c(digits), f.c(0));
  Expr result = assemble(f, e, s.m, log_tail(f, s.m));
  result = select(less(x, f.inf()), result, x);
  result = select(less(x, f.c(0)), f.nan(), result);
  return select(equal(x, f.c(0)), unary(Op::neg, f.inf()), result);
}

// Computes log(u) for u = 1 + x rounded, and corrects to first order for the part of x that was lost.
Expr log1p_of(const Form& f, const Expr& x) {
  const Expr u = x + f.c(1);
  const Expr lost = (x - (u - f.c(1))) / u;
  const Split s = split(f, u);
  Expr result = assemble(f, s.e, s.m, log_tail(f, s.m) + lost);
  result = select(less(x, f.inf()), result, x);
  result = select(less(x, f.c(-1)), f.nan(), result);
  result = select(equal(x, f.c(-1)), unary(Op::neg, f.inf()), result);
  return f.with_sign(result, x);
}

namespace {
constexpr double kLarge = 0x1p28;  ///< from here on x^2 + 1 rounds to x^2 in f64
}

Expr asinh_of(const Form& f, const Expr& x) {
  const Expr a = absolute(x);
  const Expr square = a * a;
  const Expr t = a + square / (f.c(1) + unary(Op::sqrt, square + f.c(1)));
  const Expr result = select(greater(a, f.c(kLarge)), log_positive(f, a) + f.c(kLn2), log1p_of(f, t));
  return f.with_sign(result, x);
}

Expr acosh_of(const Form& f, const Expr& x) {
  const Expr t = x - f.c(1);
  const Expr near = log1p_of(f, t + unary(Op::sqrt, t * (t + f.c(2))));
  const Expr result = select(greater(x, f.c(kLarge)), log_positive(f, x) + f.c(kLn2), near);
  return select(less(x, f.c(1)), f.nan(), result);
}

Expr atanh_of(const Form& f, const Expr& x) {
  const Expr a = absolute(x);
  const Expr half = f.c(0.5) * log1p_of(f, (a + a) / (f.c(1) - a));
  return f.with_sign(half, x);
}

}  // namespace kilter::loop_passes
