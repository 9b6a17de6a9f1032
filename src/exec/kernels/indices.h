// Indices for runtime kernels that select or write by index.
#pragma once

#include <cstring>

#include "base/error.h"
#include "base/index_fault.h"
#include "exec/kernels/shapes.h"

namespace kilter {

inline bool has_indices(KernelOperands operands, size_t i) {
  return has_type(operands, i, DType::i32) || has_type(operands, i, DType::i64);
}

/// Returns the indices as non-negative numbers. Throws bad_input for the first that is out of range.
inline std::vector<int64_t> legal_indices(const KernelCall& call, const KernelOperand& indices,
                                          const IndexRange& range) {
  std::vector<int64_t> legal(static_cast<size_t>(indices.elems));
  const bool small = indices.type == DType::i32;
  const size_t n = range.sizes.size();
  for (size_t i = 0, k = 0; i < legal.size(); ++i, k = k + 1 == n ? 0 : k + 1) {
    const int64_t size = range.sizes[k];
    const int64_t at = small ? indices.as<int32_t>()[i] : indices.as<int64_t>()[i];
    if (at < -size || at >= size) {
      fail(ErrorKind::bad_input, "{} '{}': {}", call.op, call.name,
           index_fault({indices.shape.begin(), indices.shape.end()}, static_cast<int64_t>(i), at, range));
    }
    legal[i] = at < 0 ? at + size : at;
  }
  return legal;
}

/// Copies one element or run of elements.
inline void copy_bytes(std::byte* to, const std::byte* from, int64_t bytes) {
  if (bytes == 4) {
    std::memcpy(to, from, 4);
  } else if (bytes == 8) {
    std::memcpy(to, from, 8);
  } else {
    std::memcpy(to, from, static_cast<size_t>(bytes));
  }
}

/// Adds up the offsets, in elements, of tuples of `width` indices into the dimensions of `data` from `first` on.
inline std::vector<int64_t> tuple_offsets(const std::vector<int64_t>& indices, int64_t width,
                                          std::span<const int64_t> data, int64_t first) {
  std::vector<int64_t> offsets(width == 0 ? 0 : indices.size() / static_cast<size_t>(width));
  size_t next = 0;
  for (int64_t& offset : offsets) {
    for (int64_t k = 0; k < width; ++k)
      offset += indices[next++] * extent_product(data, first + k + 1, std::ssize(data));
  }
  return offsets;
}

/// Calls f(i, at) for each element i of indices of this shape. `at` is the offset of the element of `data` at the same
/// coordinates, except that the coordinate of `axis` is the index.
template <class F>
void for_each_addressed(std::span<const int64_t> shape, std::span<const int64_t> data, int64_t axis,
                        const std::vector<int64_t>& indices, F f) {
  const size_t rank = shape.size();
  if (rank == 0 || indices.empty()) return;
  Shape strides(rank, 1), index(rank, 0);
  for (size_t d = rank - 1; d-- > 0;) strides[d] = strides[d + 1] * data[d + 1];
  const auto a = static_cast<size_t>(axis);
  const int64_t row = shape[rank - 1];
  for (size_t i = 0; i < indices.size();) {
    int64_t base = 0;
    for (size_t d = 0; d + 1 < rank; ++d) base += d == a ? 0 : index[d] * strides[d];
    const int64_t step = a == rank - 1 ? 0 : 1;
    for (int64_t k = 0; k < row; ++k, ++i) f(i, base + k * step + indices[i] * strides[a]);
    for (size_t d = rank - 1; d-- > 0;) {
      if (++index[d] < shape[d]) break;
      index[d] = 0;
    }
  }
}

/// Whether indices of one entry per element fit data along an axis: the same rank, and no larger in other dimensions.
inline bool addresses_fit(std::span<const int64_t> shape, std::span<const int64_t> data, int64_t axis) {
  if (shape.size() != data.size()) return false;
  for (size_t d = 0; d < data.size(); ++d) {
    if (shape[d] > data[d] && static_cast<int64_t>(d) != axis) return false;
  }
  return true;
}

}  // namespace kilter
