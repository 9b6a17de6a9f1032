// Scalar formulas shared by several operators, each for reference kernels (C++ numbers) and for scalar hooks (Expr).
#pragma once

#include <cmath>
#include <concepts>
#include <type_traits>
#include <vector>

#include "ops/support/scalar.h"

namespace kilter {

/// Whether a number is NaN, which integers never are.
template <class T>
bool is_nan(T x) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::isnan(x);
  } else {
    return false;
  }
}

/// Returns 1 / (1 + exp(-x)) without overflow.
template <std::floating_point T>
T logistic(T x) {
  if (x >= 0) return 1 / (1 + std::exp(-x));
  const T e = std::exp(x);
  return e / (1 + e);
}

/// Returns log(1 + exp(x)) without overflow, as max(x, 0) + log(1 + exp(-|x|)).
template <std::floating_point T>
T softplus(T x) {
  return (x > 0 ? x : T{0}) + std::log1p(std::exp(-std::abs(x)));
}
inline Expr softplus(const Expr& x) {
  return max(like(x, 0), x) + unary(Op::log1p, unary(Op::exp, unary(Op::neg, unary(Op::abs, x))));
}

/// Limits x to [0, 1]; NaN stays NaN.
template <std::floating_point T>
T clamp01(T x) {
  const T low = 0 > x ? T{0} : x;
  return 1 < low ? T{1} : low;
}
inline Expr clamp01(const Expr& x) { return min(like(x, 1), max(like(x, 0), x)); }

/// Returns the least or greatest of all operands (`which` is Op::min or Op::max), or NaN if any of them is NaN.
std::optional<Expr> extreme_of(const OpView& op, std::span<const Expr> in, Op which);

}  // namespace kilter
