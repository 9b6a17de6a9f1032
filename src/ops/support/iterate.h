// Copies and index arithmetic for reference kernels over dense row-major tensors.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/iterate.h"
#include "base/tensor.h"

namespace kilter {

/// Returns strides, in elements, that read a dense tensor of shape `from` as if it had shape `to` (numpy broadcast:
/// dimensions are aligned at the end, extents of 1 repeat with stride 0). `from` must broadcast to `to`.
Shape broadcast_strides(const Shape& from, const Shape& to);
/// Returns the strides of `shape` reordered: result[i] = strides[perm[i]].
Shape permuted(const Shape& strides, std::span<const int64_t> perm);
/// Returns the product of the extents in [begin, end).
int64_t product(const Shape& shape, size_t begin, size_t end);

/// Copies to[to_offset + i . to_strides] = from[from_offset + i . from_strides] for every i in `extent`. The tensors
/// must have the same element type, which may be any, including strings.
void copy_strided(const Tensor& from, int64_t from_offset, const Shape& from_strides, const Tensor& to,
                  int64_t to_offset, const Shape& to_strides, const Shape& extent);
/// Copies to[j] = from[i]. The tensors must have the same element type, which may be any.
void copy_element(const Tensor& from, int64_t i, const Tensor& to, int64_t j);
/// Copies all elements in row-major order into a tensor of the same type and element count.
void copy_all(const Tensor& from, const Tensor& to);
/// Sets every element to `value` converted to the tensor's type. Not for strings.
void fill(const Tensor& tensor, double value);

/// Load all elements as double, and store doubles (floats round to nearest even, integers truncate toward zero and
/// saturate, boolean is `!= 0`). For kernels that need neither speed nor 64-bit integers.
std::vector<double> load_doubles(const Tensor& tensor);
void store_doubles(const Tensor& tensor, std::span<const double> values);

}  // namespace kilter
