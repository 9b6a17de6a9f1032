// Window functions of signal processing: the shape rule and kernel that BlackmanWindow, HammingWindow and HannWindow
// share.
#pragma once

#include "ops/op.h"

namespace kilter {

/// Output 0 is [size] of the type that attribute output_datatype names. The size is the value of the scalar input 0.
void infer_window_function(InferContext& ctx);

/// Computes out[n] = c0 + c1 cos(t) + c2 cos(2 t) with t = 2 pi n / N, where N is the size (attribute periodic) or one
/// less (symmetric; a window of one element is 1).
void reference_window_function(ReferenceContext& ctx, double c0, double c1, double c2);

}  // namespace kilter
