// How far a compiled value is from that of the reference kernels, as `kilter run --verify` judges it.
#pragma once

#include <cmath>

#include "base/tensor.h"

namespace kilter {

struct ReferenceDifference {
  double most = 0;      ///< largest absolute difference
  double scale = 0;     ///< largest finite magnitude of what differs; 1 where that is 0
  bool unlike = false;  ///< a NaN or an infinity in one of them only
  double relative() const { return unlike ? INFINITY : scale > 0 ? most / scale : most; }
};

/// NaN is like NaN, and an infinity like the same infinity. `finite_inputs`: the network's inputs and constants are
/// finite, so that what is not finite is overflow; which kind of it a sum becomes is a matter of the order of its
/// terms, and all are alike, as are numbers next to the end of the type's range.
ReferenceDifference difference(const Tensor& got, const Tensor& want, bool finite_inputs);

bool all_finite(const Tensor& tensor);

}  // namespace kilter
