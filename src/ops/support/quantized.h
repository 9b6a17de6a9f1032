// Zero points and scales of quantised operands: q represents (q - zero) * scale.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "ops/op.h"
#include "ops/support/exact_quotient.h"

namespace kilter {

/// Returns q - zero for every element. zero, reshaped to `zero_shape`, broadcasts to q; an undefined zero counts as 0.
std::vector<int64_t> shifted(const Tensor& q, const Tensor& zero, const Shape& zero_shape);

/// Stores saturate(round to nearest even (real) + zero) in the tensor's type (i8 or u8) at element i.
void store_quantized(const Tensor& tensor, int64_t i, double real, int64_t zero);

/// Stores saturate(round(value / scale) + zero), rounding once to nearest even, in the tensor's type (i8 or u8) at
/// element i.
void store_quotient(const Tensor& tensor, int64_t i, Wide value, double scale, int64_t zero);

/// The scale and the zero point of a whole tensor.
struct PerTensor {
  double scale = 1;
  int64_t zero = 0;
};
/// Reads the scale from input `scale` and the zero point from input `zero`, which is 0 if that input is omitted.
PerTensor per_tensor(const ReferenceContext& ctx, size_t scale, size_t zero);
/// Checks the scale and the zero point of the whole tensor `what`: one f32, and one element of type `type` or nothing.
/// Throws bad_model.
void check_per_tensor(const InferContext& ctx, DType type, size_t scale, size_t zero, std::string_view what);

/// Throws bad_model unless input i is omitted or has exactly one element.
void check_scalar(const InferContext& ctx, size_t i, std::string_view what);
/// Throws bad_model unless the type of input i is i8 or u8.
void check_quantized(const InferContext& ctx, size_t i);

/// Throws bad_model unless input `zero`, the zero point of input `q`, is omitted or has the type of q.
void check_zero_type(const InferContext& ctx, size_t zero, size_t q);

}  // namespace kilter
