// The difference between a compiled value and that of the reference kernels, as measured by `kilter run --verify`.
#pragma once

#include <cmath>

#include "base/tensor.h"

namespace kilter {

struct ReferenceDifference {
  double most = 0;      ///< largest absolute difference
  double scale = 0;     ///< largest finite magnitude among the elements that differ; 1 if that is 0
  bool unlike = false;  ///< a NaN or an infinity in only one of the two
  double relative() const { return unlike ? INFINITY : scale > 0 ? most / scale : most; }
};

/// Compares two tensors. NaN equals NaN, and an infinity equals the same infinity. `finite_inputs` says that the
/// network's inputs and constants are finite, so that any infinity or NaN is the result of an overflow. Which infinity
/// or NaN an overflowing sum becomes depends on the order of its terms, so these all count as equal, as do numbers near
/// the end of the type's range.
ReferenceDifference difference(const Tensor& got, const Tensor& want, bool finite_inputs);

/// Returns the root of the mean square of the differences, relative to that of `want`. Infinite if `got` has elements
/// that are not finite where those of `want` are; other elements that are not finite do not count.
double relative_rms(const Tensor& got, const Tensor& want);

bool all_finite(const Tensor& tensor);

}  // namespace kilter
