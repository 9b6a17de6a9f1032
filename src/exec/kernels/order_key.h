// Keys by which runtime kernels sort elements: by value; all NaNs are equal and greater than everything else, -0
// equals 0.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "base/dtype.h"
#include "exec/kernels/wide.h"

namespace kilter {

template <class T>
constexpr bool kSmallFloat = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;

/// The unsigned integer that has the keys of T.
template <class T>
using OrderKey = std::conditional_t<(sizeof(T) > 4), uint64_t, uint32_t>;

/// Returns a key: key(a) < key(b) if and only if a comes before b.
template <class T>
KILTER_WIDE inline OrderKey<T> order_key(T value) {
  if constexpr (kSmallFloat<T>) {
    return order_key(static_cast<float>(value));
  } else if constexpr (std::is_floating_point_v<T>) {
    using Key = OrderKey<T>;
    constexpr int kLast = sizeof(Key) * 8 - 1;
    const Key bits = std::bit_cast<Key>(value + T{0});  // -0 becomes 0
    const Key negative = Key{0} - (bits >> kLast);
    const Key key = bits ^ (negative | Key{1} << kLast);
    return value != value ? std::numeric_limits<Key>::max() : key;
  } else if constexpr (std::is_signed_v<T>) {
    using Wide = std::conditional_t<(sizeof(T) > 4), int64_t, int32_t>;
    return static_cast<OrderKey<T>>(Wide{value}) ^ (OrderKey<T>{1} << (sizeof(OrderKey<T>) * 8 - 1));
  } else {
    return static_cast<OrderKey<T>>(value);
  }
}

}  // namespace kilter
