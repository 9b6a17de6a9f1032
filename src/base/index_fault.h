// The message for an index that is out of range. Reference kernels use it, as do the compiler for constant indices and
// the executor for indices known only at run time.
#pragma once

#include <string>

#include "base/tensor.h"

namespace kilter {

/// The dimensions of some data that a tensor of indices points into. Element i of the indices selects along dimension
/// axis + i % n of the data, which has sizes[i % n] elements; n = sizes.size().
struct IndexRange {
  int64_t axis = 0;
  std::vector<int64_t> sizes;

  int64_t size(int64_t element) const { return sizes[static_cast<size_t>(element % std::ssize(sizes))]; }
  int64_t axis_of(int64_t element) const { return axis + element % std::ssize(sizes); }
};

/// Returns whether `index` is legal. Negative indices count from the end.
inline bool in_range(int64_t index, int64_t size) { return index >= -size && index < size; }

/// Returns the first of `count` indices that is out of range, or -1 if there is none.
template <class T>
int64_t first_out_of_range(const T* indices, int64_t count, const IndexRange& range) {
  for (int64_t i = 0; i < count; ++i) {
    if (!in_range(indices[i], range.size(i))) return i;
  }
  return -1;
}

/// Returns "indices[0,2] is 7, out of range for axis 1 of size 3; legal values are -3 to 2". `shape` is the shape of
/// the index tensor.
std::string index_fault(const Shape& shape, int64_t element, int64_t value, const IndexRange& range);

}  // namespace kilter
