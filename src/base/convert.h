// One number converted from one element type into another: what casts, stores of results and the interpreter of loops
// share.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "base/dtype.h"

namespace kilter {

/// The integer part of `value` (toward zero); the nearest end of T's range beyond it; 0 for NaN.
template <class T>
T saturate(double value) {
  if (std::isnan(value)) return 0;
  if (value <= static_cast<double>(std::numeric_limits<T>::min())) return std::numeric_limits<T>::min();
  // One more than the highest value, which a double may not hold exactly.
  if (value >= std::ldexp(1.0, std::numeric_limits<T>::digits)) return std::numeric_limits<T>::max();
  return static_cast<T>(value);
}

/// f64 to f32 rounded to odd: a second rounding to fewer bits then equals a single one.
inline float round_to_odd(double value) {
  const auto nearest = static_cast<float>(value);
  const auto back = static_cast<double>(nearest);
  if (back == value || std::isnan(value) || std::isinf(nearest)) return nearest;
  auto bits = std::bit_cast<uint32_t>(nearest);
  if (std::abs(back) > std::abs(value)) --bits;
  return std::bit_cast<float>(bits | 1U);
}

/// `value` as a To. Float to integer truncates toward zero and saturates, NaN gives 0; float to narrower float rounds
/// once, to nearest even; integer to narrower integer wraps; anything to bool is `!= 0`.
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
