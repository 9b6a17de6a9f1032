// The total order of elements used by TopK, ArgMax, ArgMin and Unique: by value; all NaNs are equal and greater than
// everything else (as in numpy's sort), -0 equals 0, and strings are ordered by bytes.
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "ops/support/elementwise.h"

namespace kilter {

/// Returns a negative value, 0 or a positive value if a comes before, with or after b.
template <class T>
int order(const T& a, const T& b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (a != a || b != b) return (a != a ? 1 : 0) - (b != b ? 1 : 0);
  }
  return a < b ? -1 : a > b ? 1 : 0;
}

/// Calls f(compare), where compare(i, j) orders elements i and j of the tensor.
template <class F>
void with_order(const Node& node, const Tensor& x, F&& f) {
  if (x.dtype() == DType::string) {
    const std::vector<std::string>& s = x.strings();
    f([&](int64_t i, int64_t j) { return order(s[static_cast<size_t>(i)], s[static_cast<size_t>(j)]); });
    return;
  }
  visit_types(NumbersAndBool{}, node, x.dtype(), [&]<class T>() {
    const T* data = x.data<T>();
    f([data](int64_t i, int64_t j) { return order(widen(data[i]), widen(data[j])); });
  });
}

}  // namespace kilter
