// Index loops for reference kernels over dense row-major tensors.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/tensor.h"

namespace kilter {

/// Returns strides, in elements, that read a dense tensor of shape `from` as if it had shape `to` (numpy broadcast:
/// dimensions are aligned at the end, extents of 1 repeat with stride 0). `from` must broadcast to `to`.
Shape broadcast_strides(const Shape& from, const Shape& to);
/// Returns the strides of `shape` reordered: result[i] = strides[perm[i]].
Shape permuted(const Shape& strides, std::span<const int64_t> perm);
/// Returns the product of the extents in [begin, end).
int64_t product(const Shape& shape, size_t begin, size_t end);

/// Calls f(std::span<const int64_t> index) for every index vector of `shape` in row-major order: once with an empty
/// span for a scalar, never if an extent is 0.
template <class F>
void for_each_index(const Shape& shape, F&& f) {
  const int64_t total = elems(shape);
  std::vector<int64_t> index(shape.size(), 0);
  for (int64_t count = 0; count < total; ++count) {
    f(std::span<const int64_t>(index));
    for (size_t d = shape.size(); d-- > 0;) {
      if (++index[d] < shape[d]) break;
      index[d] = 0;
    }
  }
}

/// Calls f(offsets) for every index vector i of `extent` in row-major order, where offsets[k] = start[k] + i .
/// strides[k].
template <size_t N, class F>
void for_each_offset(const Shape& extent, const std::array<Shape, N>& strides, F&& f,
                     std::array<int64_t, N> start = {}) {
  const int64_t total = elems(extent);
  std::vector<int64_t> index(extent.size(), 0);
  std::array<int64_t, N> offsets = start;
  for (int64_t count = 0; count < total; ++count) {
    f(static_cast<const std::array<int64_t, N>&>(offsets));
    for (size_t d = extent.size(); d-- > 0;) {
      for (size_t k = 0; k < N; ++k) offsets[k] += strides[k][d];
      if (++index[d] < extent[d]) break;
      for (size_t k = 0; k < N; ++k) offsets[k] -= extent[d] * strides[k][d];
      index[d] = 0;
    }
  }
}

/// Returns the element offset of an index vector: the sum of index[d] * strides[d].
inline int64_t offset_of(std::span<const int64_t> index, const Shape& strides) {
  int64_t offset = 0;
  for (size_t d = 0; d < index.size(); ++d) offset += index[d] * strides[d];
  return offset;
}

/// Copies to[to_offset + i . to_strides] = from[from_offset + i . from_strides] for every i in `extent`. Both have the
/// same element type, which may be any, including strings.
void copy_strided(const Tensor& from, int64_t from_offset, const Shape& from_strides, const Tensor& to,
                  int64_t to_offset, const Shape& to_strides, const Shape& extent);
/// Copies to[j] = from[i]. Both have the same element type, which may be any.
void copy_element(const Tensor& from, int64_t i, const Tensor& to, int64_t j);
/// Copies all elements in row-major order into a tensor of the same type and element count.
void copy_all(const Tensor& from, const Tensor& to);
/// Sets every element to `value` converted to the tensor's type. Not for strings.
void fill(const Tensor& tensor, double value);

/// Loads all elements as double, for kernels that need neither speed nor 64-bit integers; and stores them (floats round
/// to nearest even, integers truncate toward zero and saturate, boolean is `!= 0`).
std::vector<double> load_doubles(const Tensor& tensor);
void store_doubles(const Tensor& tensor, std::span<const double> values);

}  // namespace kilter
