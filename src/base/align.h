// Whole multiples of sizes that are not negative.
#pragma once

#include <type_traits>

namespace kilter {

/// The smallest whole number of `size` that holds `value`; size > 0, however large.
template <class T>
constexpr T ceil_div(T value, std::type_identity_t<T> size) {
  return static_cast<T>(value / size + (value % size != 0 ? 1 : 0));
}

/// The smallest multiple of `to` from `value` on; to > 0.
template <class T>
constexpr T round_up(T value, std::type_identity_t<T> to) {
  return ceil_div(value, to) * to;
}

}  // namespace kilter
