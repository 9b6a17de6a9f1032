// exp and the functions built on it: x = k ln2 + r with |r| <= ln2/2, exp(x) = 2^k (1 + p), p = exp(r) - 1 as a
// polynomial. The coefficients are minimax fits; each is rounded to its type and the others are fitted again.
#include <array>

#include "loop/passes/math_form.h"

namespace kilter::loop_passes {
namespace {

// (exp(r) - 1 - r) / r^2 on |r| <= 0.3475; the error of exp(r) is 2^-28, 2^-40 and 2^-57.
constexpr std::array kExp32 = {0.5, 0.16666513681411743, 0.04166658595204353, 0.00836949236690998,
                               0.0013921393547207117};
constexpr std::array kExp64Short = {0.49999999999509387,   0.1666666678850505,    0.04166666706042478,
                                    0.008333280729152891,  0.0013888795428728527, 0.00019909596748921558,
                                    2.4888073953030148e-05};
constexpr std::array kExp64 = {0.5000000000000013,     0.166666666666667,      0.04166666666651235,
                               0.008333333333306651,   0.0013888888947899939,  0.00019841269918582504,
                               2.4801488954181565e-05, 2.7557215235173253e-06, 2.7631655985654866e-07,
                               2.5118196551208507e-08};
// erf(x) / x - 1 in x^2 on |x| <= 1 (2^-29), and log(1 - erf(x)) on [1, 3.95] (error of erf 2^-29).
constexpr std::array kErfSmall = {0.12837916612625122,   -0.3761262595653534,  0.11283578723669052,
                                  -0.026853347197175026, 0.005187162198126316, -0.0007997851935215294,
                                  7.806890789652243e-05};
constexpr std::array kErfLarge = {-0.00034155946923419833, -1.127089023590088,  -0.6381451487541199,
                                  -0.10310643911361694,    0.02183789201080799, -0.002947610104456544,
                                  0.00018637347966432571};
constexpr double kLog2E = 1.4426950408889634;

struct Reduced {
  Expr t;  ///< k + magic: the low bits are k
  Expr p;  ///< exp(r) - 1
};

// ln2 is split so that k * high is exact without FMA.
Reduced reduce(const Form& f, const Expr& x) {
  const Expr t = fma(x, f.c(kLog2E), f.c(f.magic()));
  const Expr k = t - f.c(f.magic());
  Expr r = fma(k, f.pick(-0.693359375, -6.93147180369123816490e-01), x);
  r = fma(k, f.pick(2.12194440e-4, -1.90821492927058770002e-10), r);
  const Expr q = f.single() ? f.poly(r, kExp32) : f.full ? f.poly(r, kExp64) : f.poly(r, kExp64Short);
  return {t, fma(r * r, q, r)};
}

/// Returns 2^(k + offset), which must be a normal number.
Expr power_of_two(const Form& f, const Expr& t, int64_t offset = 0) {
  const uint64_t bias = (f.bias() + static_cast<uint64_t>(offset)) << f.mantissa();
  return f.value(f.shift_left(f.bits(t), f.mantissa()) + f.u(bias));
}

/// Returns whether `x` is min(0, y), the form in which weights of a softmax have their exponents.
bool at_most_zero(const Expr& x) {
  if (x->kind != ExprKind::binary || x->op != Op::min) return false;
  return x->args[0]->kind == ExprKind::float_imm && x->args[0]->fval == 0;
}

/// Returns exp(x) for x <= 0 without a result that is subnormal: it is 0 if k is -127, whose 2^k has the bits of 0.
Expr exp_at_most_one(const Form& f, const Expr& x) {
  const Reduced e = reduce(f, f.at_least(x, -88));
  const Expr scale = power_of_two(f, e.t);
  return fma(scale, e.p, scale);
}

}  // namespace

// Splits 2^k into two factors, so that results overflow and become subnormal as they should.
Expr exp_of(const Form& f, const Expr& x) {
  if (f.single() && at_most_zero(x)) return exp_at_most_one(f, x);
  const Expr clamped = f.single() ? f.at_least(f.at_most(x, 89), -104) : f.at_least(f.at_most(x, 710), -746);
  const Reduced e = reduce(f, clamped);
  const Expr k = f.bits(e.t) - f.u(f.magic_bits() - 2 * f.bias());  // k + 2 bias
  const Expr half = f.shift_right(k, 1);
  const Expr rest = k - half;
  const Expr scaled = (e.p + f.c(1)) * f.value(f.shift_left(half, f.mantissa()));
  return scaled * f.value(f.shift_left(rest, f.mantissa()));
}

// 2^(k-1) is normal until the result overflows.
Expr expm1_of(const Form& f, const Expr& x) {
  const Expr clamped = f.single() ? f.at_least(f.at_most(x, 89), -18) : f.at_least(f.at_most(x, 710), -38);
  const Reduced e = reduce(f, clamped);
  const Expr scale = power_of_two(f, e.t, -1);
  const Expr half = fma(scale, e.p, scale - f.c(0.5));
  return f.with_sign(half + half, x);
}

// Computes (e - 1) / (e + 1) with e = exp(2|x|); beyond the limit the result rounds to 1.
Expr tanh_of(const Form& f, const Expr& x) {
  const Expr a = f.at_most(absolute(x), f.single() ? 9.2 : 20);
  const Reduced e = reduce(f, a + a);
  const Expr scale = power_of_two(f, e.t);
  const Expr minus_one = fma(scale, e.p, scale - f.c(1));
  return f.with_sign(minus_one / (minus_one + f.c(2)), x);
}

// Computes 1 / (1 + exp(-x)).
Expr sigmoid_of(const Form& f, const Expr& x) {
  const double low = f.single() ? -88.37 : -709.4;  // exp(-low) < 2^(bias + 1/2)
  const Expr clamped = f.at_least(f.at_most(x, -low), low);
  const Reduced e = reduce(f, unary(Op::neg, clamped));
  const Expr scale = power_of_two(f, e.t);
  const Expr result = f.c(1) / fma(e.p + f.c(1), scale, f.c(1));
  return select(less(x, f.c(low)), f.c(0), result);
}

Expr sinh_of(const Form& f, const Expr& x) {
  const Expr a = f.at_most(absolute(x), f.full ? 711 : 100);
  const Expr t = expm1_of(f, a);
  Expr result = f.c(0.5) * (t + t / (t + f.c(1)));
  if (f.full) {
    const Expr root = exp_of(f, f.c(0.5) * a);
    result = select(greater(a, f.c(40)), f.c(0.5) * root * root, result);
  }
  return f.with_sign(result, x);
}

Expr cosh_of(const Form& f, const Expr& x) {
  const Expr a = f.at_most(absolute(x), f.full ? 711 : 100);
  const Expr e = exp_of(f, a);
  const Expr result = f.c(0.5) * e + f.c(0.5) / e;
  if (!f.full) return result;
  const Expr root = exp_of(f, f.c(0.5) * a);
  return select(greater(a, f.c(40)), f.c(0.5) * root * root, result);
}

Expr erf_of(const Form& f, const Expr& x) {
  const Expr a = f.at_most(absolute(x), 3.95);
  const Expr small = fma(a, f.poly(a * a, kErfSmall), a);
  const Reduced e = reduce(f, f.poly(a, kErfLarge));
  const Expr scale = power_of_two(f, e.t);
  const Expr large = fma(unary(Op::neg, scale), e.p, f.c(1) - scale);
  return f.with_sign(select(less(a, f.c(1)), small, large), x);
}

}  // namespace kilter::loop_passes
