// The message for an index or a length that is out of range. Reference kernels use it, as do the compiler for constant
// indices and the executor for indices known only at run time.
#pragma once

#include <string>

#include "base/tensor.h"

namespace kilter {

/// The dimensions of some data that a tensor of indices points into. Element i of the indices selects along dimension
/// axis + i % n of the data, which has sizes[i % n] elements; n = sizes.size(). Negative indices count from the end.
struct IndexRange {
  int64_t axis = 0;
  std::vector<int64_t> sizes;
  bool lengths = false;  ///< the elements are lengths of sequences, 0 to sizes[0] - 1, instead of indices

  int64_t size(int64_t element) const { return sizes[static_cast<size_t>(element % std::ssize(sizes))]; }
  int64_t axis_of(int64_t element) const { return axis + element % std::ssize(sizes); }
  /// Returns whether `value` is legal as this element.
  bool holds(int64_t element, int64_t value) const {
    return value >= (lengths ? 0 : -size(element)) && value < size(element);
  }
};

/// Returns the first of `count` indices that is out of range, or -1 if there is none.
template <class T>
int64_t first_out_of_range(const T* indices, int64_t count, const IndexRange& range) {
  for (int64_t i = 0; i < count; ++i) {
    if (!range.holds(i, indices[i])) return i;
  }
  return -1;
}

/// Returns "indices[0,2] is 7, out of range for axis 1 of size 3; legal values are -3 to 2", or "sequence_lens[2] is 7;
/// legal values are 0 to 5". `shape` is the shape of the index tensor.
std::string index_fault(const Shape& shape, int64_t element, int64_t value, const IndexRange& range);

}  // namespace kilter
