// sin, cos, tan, and the inverse functions.
#include <array>

#include "loop/passes/math_form.h"

namespace kilter::loop_passes {
namespace {

// On |r| <= pi/4, in r^2: (sin(r) - r) / r^3 (error of sin 2^-28) and (cos(r) - 1 + r^2/2) / r^4 (error of cos 2^-33).
constexpr std::array kSin = {-0.16666655242443085, 0.008332191966474056, -0.00019518785120453686};
constexpr std::array kCos = {0.04166664555668831, -0.00138873013202101, 2.4430684788967483e-05};
// (atan(x) - x) / x^3 in x^2 on |x| <= sqrt(2) - 1 (2^-30, 2^-59).
constexpr std::array kAtan32 = {-0.33333316445350647, 0.1999853253364563, -0.14244510233402252, 0.10600165277719498,
                                -0.06092706322669983};
constexpr std::array kAtan64 = {-0.333333333333332,   0.19999999999954038,  -0.14285714280243894, 0.11111110785897764,
                                -0.09090897829304473, 0.07692061506114815,  -0.06663118853709056, 0.05847997504117046,
                                -0.05039792917428665, 0.038076956675565425, -0.01792075625047393};
// (asin(x) - x) / x^3 in x^2 on |x| <= 1/2 (2^-32, 2^-60).
constexpr std::array kAsin32 = {0.16666659712791443, 0.07500521093606949, 0.04451363533735275,
                                0.03183605521917343, 0.01432918943464756, 0.03767312690615654};
constexpr std::array kAsin64 = {0.16666666666666763,  0.07499999999970092,  0.04464285717529269,  0.030381942674988966,
                                0.022372215913308388, 0.01735159538042718,  0.01398101982465191,  0.011397283553233075,
                                0.010789369266050609, 0.003672019865366523, 0.021791014759575976, -0.02111719781084751,
                                0.032702438789991246};
// 1 / (2 pi) in pieces of 29 bits, whose product with an f32 is exact in f64.
constexpr std::array kTurns = {0x1.45f306dp-3,   0x1.9391054p-32, 0x1.4fe13abp-61, 0x1.d1f534dp-90,
                               0x1.b81b6c5p-119, 0x1.5993c4p-150, 0x1.c820ff2p-177};
constexpr double kHalfPi = 0x1.921fb54442d18p+0;

struct Angle {
  Expr quadrant;  ///< the multiple of pi/2 that was subtracted, modulo 4, in the low two bits of a u32
  Expr sin, cos;  ///< of the remainder, |r| <= pi/4
};

// Computes x / (2 pi) modulo 1. Whole turns are dropped from every partial product, so the remainder is exact for any
// x.
Angle reduce(const Form& f, const Expr& x) {
  const Form d{DType::f64, f.lanes};
  const Expr wide = cast(DType::f64, x);
  const auto fraction = [](const Expr& v) { return v - unary(Op::round_even, v); };
  Expr turns;
  for (const double piece : kTurns) {
    const Expr part = fraction(wide * d.c(piece));
    turns = turns.defined() ? turns + part : part;
  }
  const Expr quarters = d.c(4) * fraction(turns);
  const Expr k = unary(Op::round_even, quarters);
  const Expr r = cast(DType::f32, (quarters - k) * d.c(kHalfPi));
  const Expr z = r * r;
  Angle a;
  a.quadrant = f.bits(cast(DType::f32, k) + f.c(f.magic()));
  a.sin = fma(r * z, f.poly(z, kSin), r);
  a.cos = fma(z * z, f.poly(z, kCos), fma(z, f.c(-0.5), f.c(1)));
  return a;
}

Expr is_odd(const Form& f, const Expr& quadrant) {
  return binary(Op::ne, binary(Op::bit_and, quadrant, f.u(1)), f.u(0));
}
/// Negates v in lanes in which bit 1 of the quadrant is set.
Expr flip(const Form& f, const Expr& v, const Expr& quadrant) {
  const Expr sign = f.shift_left(binary(Op::bit_and, quadrant, f.u(2)), 30);
  return f.value(binary(Op::bit_xor, f.bits(v), sign));
}

/// Returns x where |x| is so small that the function equals x. This keeps the sign of zero, which the reduction loses.
Expr unless_tiny(const Form& f, const Expr& x, const Expr& v) { return select(less(absolute(x), f.c(0x1p-13)), x, v); }

/// Returns asin(t) for t in [0, 1/2], given t and t^2.
Expr asin_core(const Form& f, const Expr& t, const Expr& z) {
  return fma(t * z, f.single() ? f.poly(z, kAsin32) : f.poly(z, kAsin64), t);
}
double half_pi_high(const Form& f) { return f.single() ? static_cast<double>(1.57079637F) : kHalfPi; }
double half_pi_low(const Form& f) { return f.single() ? -4.37113883e-8 : 6.123233995736766e-17; }

}  // namespace

Expr sin_of(const Form& f, const Expr& x) {
  const Angle a = reduce(f, x);
  return unless_tiny(f, x, flip(f, select(is_odd(f, a.quadrant), a.cos, a.sin), a.quadrant));
}

Expr cos_of(const Form& f, const Expr& x) {
  const Angle a = reduce(f, x);
  return flip(f, select(is_odd(f, a.quadrant), a.sin, a.cos), a.quadrant + f.u(1));
}

Expr tan_of(const Form& f, const Expr& x) {
  const Angle a = reduce(f, x);
  const Expr odd = is_odd(f, a.quadrant);
  const Expr ratio = select(odd, unary(Op::neg, a.cos), a.sin) / select(odd, a.sin, a.cos);
  return unless_tiny(f, x, ratio);
}

// Above 1/2, uses asin(x) = pi/2 - 2 asin(sqrt((1 - x) / 2)).
Expr asin_of(const Form& f, const Expr& x) {
  const Expr a = absolute(x);
  const Expr big = greater(a, f.c(0.5));
  const Expr z = select(big, (f.c(1) - a) * f.c(0.5), a * a);
  const Expr core = asin_core(f, select(big, unary(Op::sqrt, z), a), z);
  const Expr folded = f.c(half_pi_high(f)) - (core + core - f.c(half_pi_low(f)));
  return f.with_sign(select(big, folded, core), x);
}

Expr acos_of(const Form& f, const Expr& x) {
  const Expr a = absolute(x);
  const Expr big = greater(a, f.c(0.5));
  const Expr z = select(big, (f.c(1) - a) * f.c(0.5), a * a);
  const Expr core = asin_core(f, select(big, unary(Op::sqrt, z), a), z);
  const Expr near_zero = f.c(half_pi_high(f)) - (f.with_sign(core, x) - f.c(half_pi_low(f)));
  const Expr twice = core + core;
  const Expr left = f.c(2 * half_pi_high(f)) - (twice - f.c(2 * half_pi_low(f)));
  return select(big, select(less(x, f.c(0)), left, twice), near_zero);
}

// Uses atan(x) = pi/4 + atan((x - 1) / (x + 1)) = pi/2 - atan(1 / x).
Expr atan_of(const Form& f, const Expr& x) {
  const Expr a = absolute(x);
  const Expr high = greater(a, f.c(2.414213562373095));
  const Expr middle = greater(a, f.c(0.4142135623730951));
  const Expr above = select(high, f.c(-1), select(middle, a - f.c(1), a));
  const Expr below = select(high, a, select(middle, a + f.c(1), f.c(1)));
  const Expr t = above / below;
  const Expr z = t * t;
  const auto offset = [&](double whole) { return select(high, f.c(whole), select(middle, f.c(0.5 * whole), f.c(0))); };
  const Expr core = fma(t * z, f.single() ? f.poly(z, kAtan32) : f.poly(z, kAtan64), t);
  return f.with_sign(offset(half_pi_high(f)) + (core + offset(half_pi_low(f))), x);
}

}  // namespace kilter::loop_passes
