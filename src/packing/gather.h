// Constants that are their source's elements in another order, with zeros between them: how they are described, and the
// loop that packs them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/tensor.h"

namespace kilter {

/// Each element of the packed constant is one of the source, or zero. Loops count the elements of the packed constant,
/// which is dense, with the last loop the fastest. They move indices along the source's axes; where an index is outside
/// its axis, the element is zero.
struct Gather {
  struct Axis {
    int64_t extent = 1;
    int64_t stride = 0;  ///< elements of the source
    int64_t first = 0;   ///< the index before any loop moves it
  };
  struct Loop {
    int64_t count = 1;
    int32_t axis = 0;  ///< that it moves along
    int64_t step = 1;
  };
  std::vector<Axis> axes;
  std::vector<Loop> loops;

  /// Elements of the packed constant. fault_of() must have returned nullopt.
  int64_t elems() const;
};

/// Returns what is wrong with a gather from a source of `source_elems` elements: empty axes, negative strides, sizes
/// that overflow, or elements outside the source. Nullopt: it is sound.
std::optional<std::string> fault_of(const Gather& gather, int64_t source_elems);

/// Writes the packed constant to memory that is zeroed. Elements have the same type as the source's, or the source is
/// f32 and they are bf16, f16 or i8.
void pack(const Gather& gather, DType from, const std::byte* source, DType to, std::byte* packed);

}  // namespace kilter
