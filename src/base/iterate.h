// Iteration over the index vectors of a shape, and over elements in memory.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/tensor.h"

namespace kilter {

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

/// Calls f(i, at) for every element of `shape` in row-major order: `i` counts them, and `at` is the position of element
/// i in memory. `strides` and `offset` are in elements. If `block` > 1, dimension 1 is split into blocks of that many
/// elements: strides[1] is then the distance between blocks, and `strides` has one more entry than `shape` has
/// dimensions, the distance between elements of a block.
template <class F>
void for_each_element(const Shape& shape, int64_t block, const Shape& strides, int64_t offset, F&& f) {
  int64_t i = 0;
  for_each_index(shape, [&](std::span<const int64_t> index) {
    int64_t at = offset + offset_of(index, strides);
    if (block > 1) at += index[1] / block * strides[1] + index[1] % block * strides.back() - index[1] * strides[1];
    f(i++, at);
  });
}

}  // namespace kilter
