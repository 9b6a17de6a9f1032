// Zero points and scales of the quantised products and convolutions: q represents (q - zero) * scale.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/op.h"

namespace kilter {

/// Returns q - zero for every element. zero, reshaped to `zero_shape`, broadcasts to q; an undefined zero counts as 0.
std::vector<int64_t> shifted(const Tensor& q, const Tensor& zero, const Shape& zero_shape);

/// Stores saturate(round to nearest even (real) + zero) in the tensor's type (i8 or u8) at element i.
void store_quantized(const Tensor& tensor, int64_t i, double real, int64_t zero);

/// Throws bad_model unless input i is omitted or has exactly one element.
void check_scalar(const InferContext& ctx, size_t i, const char* what);
/// Throws bad_model unless the type of input i is i8 or u8.
void check_quantized(const InferContext& ctx, size_t i);

/// Throws bad_model unless input `zero`, the zero point of input `q`, is omitted or has the type of q.
void check_zero_type(const InferContext& ctx, size_t zero, size_t q);

}  // namespace kilter
