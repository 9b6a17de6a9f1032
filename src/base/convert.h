// Conversion of one number from one element type to another. Casts, stores of results and the loop interpreter share
// it.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "base/dtype.h"

namespace kilter {

/// Returns `value` truncated toward zero and clamped to the range of T; 0 for NaN.
template <class T>
T saturate(double value) {
  if (std::isnan(value)) return 0;
  if (value <= static_cast<double>(std::numeric_limits<T>::min())) return std::numeric_limits<T>::min();
  // One more than the highest value, which itself may not be exactly representable as a double.
  if (value >= std::ldexp(1.0, std::numeric_limits<T>::digits)) return std::numeric_limits<T>::max();
  return static_cast<T>(value);
}

/// Rounds f64 to f32 with round-to-odd, so that a second rounding to fewer bits gives the same result as a single one.
inline float round_to_odd(double value) {
  const auto nearest = static_cast<float>(value);
  const auto back = static_cast<double>(nearest);
  if (back == value || std::isnan(value) || std::isinf(nearest)) return nearest;
  auto bits = std::bit_cast<uint32_t>(nearest);
  if (std::abs(back) > std::abs(value)) --bits;
  return std::bit_cast<float>(bits | 1U);
}

/// Returns `value` as a To. Float to integer truncates toward zero and saturates, and NaN gives 0. Float to narrower
/// float rounds once, to nearest even. Integer to narrower integer wraps. Anything to bool is `!= 0`.
template <class To, class From>
To convert(From value) {
  constexpr bool kFromSmall = std::is_same_v<From, Half> || std::is_same_v<From, BFloat16>;
  constexpr bool kToSmall = std::is_same_v<To, Half> || std::is_same_v<To, BFloat16>;
  if constexpr (kFromSmall) {
    return convert<To>(static_cast<float>(value));
  } else if constexpr (std::is_same_v<To, bool>) {
    return value != 0;
  } else if constexpr (kToSmall && std::is_same_v<From, double>) {
    return To(round_to_odd(value));
  } else if constexpr (kToSmall) {
    return To(static_cast<float>(value));
  } else if constexpr (std::is_integral_v<To> && std::is_floating_point_v<From>) {
    return saturate<To>(static_cast<double>(value));
  } else {
    return static_cast<To>(value);
  }
}

}  // namespace kilter
