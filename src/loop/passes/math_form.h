// One floating type with its constants, used to write the elementary functions. Used by math_*.cpp only.
//
// Integer arithmetic on the bits of floats replaces conversions: adding 1.5 * 2^mantissa rounds to an integer and
// leaves it in the low bits. This is cheap on every target, even for f64, which AVX2 can convert to i64 only one lane
// at a time.
#pragma once

#include <cstdint>
#include <limits>
#include <span>

#include "loop/expr.h"

namespace kilter::loop_passes {

struct Form {
  DType type = DType::f32;  ///< f32 or f64
  int32_t lanes = 1;
  bool full = true;  ///< f64: full accuracy; false: enough for a result that is rounded to f32 (2^-39)

  bool single() const { return type == DType::f32; }
  DType bits_type() const { return single() ? DType::u32 : DType::u64; }
  int mantissa() const { return single() ? 23 : 52; }
  uint64_t bias() const { return single() ? 127 : 1023; }
  double magic() const { return single() ? 0x1.8p23 : 0x1.8p52; }
  uint64_t magic_bits() const { return single() ? 0x4b400000U : 0x4338000000000000U; }

  Expr c(double value) const { return imm(type, value, lanes); }
  Expr u(uint64_t value) const { return imm_int(bits_type(), static_cast<int64_t>(value), lanes); }
  Expr inf() const { return c(std::numeric_limits<double>::infinity()); }
  Expr nan() const { return c(std::numeric_limits<double>::quiet_NaN()); }
  /// Returns the constant of this type. The f32 value is given separately because its last digits matter.
  Expr pick(double of_f32, double of_f64) const { return c(single() ? of_f32 : of_f64); }

  Expr bits(const Expr& x) const { return bitcast(bits_type(), x); }
  Expr value(const Expr& b) const { return bitcast(type, b); }
  Expr shift_left(const Expr& b, int count) const { return binary(Op::shl, b, u(static_cast<uint64_t>(count))); }
  Expr shift_right(const Expr& b, int count) const { return binary(Op::shr, b, u(static_cast<uint64_t>(count))); }
  uint64_t sign_mask() const { return single() ? 0x80000000U : 0x8000000000000000U; }
  Expr sign_of(const Expr& x) const { return binary(Op::bit_and, bits(x), u(sign_mask())); }
  /// Returns `magnitude` with the sign bit of `x` added. `magnitude` may be negative only if x is.
  Expr with_sign(const Expr& magnitude, const Expr& x) const {
    return value(binary(Op::bit_or, bits(magnitude), sign_of(x)));
  }
  /// Return min(x, limit) and max(x, limit), but keep NaN.
  Expr at_most(const Expr& x, double limit) const { return min(c(limit), x); }
  Expr at_least(const Expr& x, double limit) const { return max(c(limit), x); }

  /// Returns coefficients[0] + coefficients[1] * x + ...
  Expr poly(const Expr& x, std::span<const double> coefficients) const {
    Expr result = c(coefficients.back());
    for (size_t i = coefficients.size() - 1; i-- > 0;) result = fma(result, x, c(coefficients[i]));
    return result;
  }
};

inline Form form_of(const Expr& x, bool full = true) { return {x.elem(), x.lanes(), full}; }
inline Expr less(Expr a, Expr b) { return binary(Op::lt, std::move(a), std::move(b)); }
inline Expr greater(Expr a, Expr b) { return binary(Op::gt, std::move(a), std::move(b)); }
inline Expr equal(Expr a, Expr b) { return binary(Op::eq, std::move(a), std::move(b)); }
inline Expr absolute(Expr x) { return unary(Op::abs, std::move(x)); }

// math_exp.cpp. `x` has the form's type.
Expr exp_of(const Form& f, const Expr& x);
Expr expm1_of(const Form& f, const Expr& x);
Expr tanh_of(const Form& f, const Expr& x);
Expr sigmoid_of(const Form& f, const Expr& x);
Expr sinh_of(const Form& f, const Expr& x);  ///< f64
Expr cosh_of(const Form& f, const Expr& x);  ///< f64
Expr erf_of(const Form& f, const Expr& x);   ///< f32

// math_log.cpp
Expr log_of(const Form& f, const Expr& x);
/// Returns the log of numbers that are positive and normal, or 0 (-inf) or inf.
Expr log_positive(const Form& f, const Expr& x);
Expr log1p_of(const Form& f, const Expr& x);
Expr asinh_of(const Form& f, const Expr& x);  ///< f64
Expr acosh_of(const Form& f, const Expr& x);  ///< f64
Expr atanh_of(const Form& f, const Expr& x);  ///< f64

// math_trig.cpp
Expr sin_of(const Form& f, const Expr& x);  ///< f32, like cos and tan
Expr cos_of(const Form& f, const Expr& x);
Expr tan_of(const Form& f, const Expr& x);
Expr asin_of(const Form& f, const Expr& x);
Expr acos_of(const Form& f, const Expr& x);
Expr atan_of(const Form& f, const Expr& x);

// math_pow.cpp, f32
Expr pow_of(const Expr& x, const Expr& y);
Expr mod_of(const Expr& x, const Expr& y);

}  // namespace kilter::loop_passes
