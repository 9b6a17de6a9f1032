// Integer division and rounding up to multiples, for non-negative sizes.
#pragma once

#include <type_traits>

namespace kilter {

/// Returns `value` / `size` rounded up; size > 0. Does not overflow.
template <class T>
constexpr T ceil_div(T value, std::type_identity_t<T> size) {
  return static_cast<T>(value / size + (value % size != 0 ? 1 : 0));
}

/// Returns `value` rounded up to a multiple of `to`; to > 0.
template <class T>
constexpr T round_up(T value, std::type_identity_t<T> to) {
  return ceil_div(value, to) * to;
}

}  // namespace kilter
