// Overflow of sums. Kernels add values of every float type except f64 in f32. Reference kernels sum in f64 for full
// precision, but values beyond the range of f32 become infinite in both kinds of kernels, as they do in numpy.
#pragma once

#include <cmath>
#include <limits>

#include "base/dtype.h"

namespace kilter {

/// Takes a sum of values of this type, or a term of such a sum, and rounds it to infinity if it is out of range.
inline double in_range_of_sums(DType type, double x) {
  const bool f32 = is_float(type) && type != DType::f64;
  const bool beyond = f32 && std::abs(x) > double{std::numeric_limits<float>::max()};
  return beyond ? std::copysign(std::numeric_limits<double>::infinity(), x) : x;
}

}  // namespace kilter
