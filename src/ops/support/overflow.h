// Overflow. Kernels add the values of every float type but f64 in f32; reference kernels add in f64 and lose their
// precision nowhere, but what is beyond the range of f32 is infinite for both, as it is for numpy.
#pragma once

#include <cmath>
#include <limits>

#include "base/dtype.h"

namespace kilter {

/// A sum, or a term of one, of values of this type.
inline double in_range_of_sums(DType type, double x) {
  const bool f32 = is_float(type) && type != DType::f64;
  const bool beyond = f32 && std::abs(x) > double{std::numeric_limits<float>::max()};
  return beyond ? std::copysign(std::numeric_limits<double>::infinity(), x) : x;
}

}  // namespace kilter
