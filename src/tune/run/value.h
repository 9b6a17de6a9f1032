// The location of a step's logical result, which the worker needs to compare two variants of a network.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/tensor.h"
#include "exec/plan.h"

namespace kilter::tune {

/// The layout of a logical value in memory. Two variants of a network have the same values (name, type, shape),
/// possibly in different layouts.
struct ValueLayout {
  DType type = DType::f32;
  Shape shape;                    ///< logical
  int64_t block = 1;              ///< dimension 1 is split into contiguous blocks of this size
  std::array<int64_t, 4> halo{};  ///< zeros before and after the rows and the columns, inside the buffer
  Shape strides;                  ///< in elements, by dimension (dimension 1: by blocks), then by lane if blocked
  int64_t offset = 0;             ///< elements from the buffer's start to logical element 0
};

/// Allowed difference between values of a float type, relative to the largest magnitude. Used by both `kilter run
/// --verify` and the check of candidates. Half and bfloat16 values may also differ by a few roundings, and integers may
/// differ by one.
constexpr double kDefaultTolerance = 1e-3;

struct StepValue {
  std::string name;  ///< of the value, the same in all variants
  size_t step = 0;   ///< the step that writes it
  BufferRef buffer;
  ValueLayout layout;
  double tolerance = kDefaultTolerance;  ///< relative to the largest magnitude
};

/// Returns the same layout without gaps, with dimensions in the same order, as used for a copy.
ValueLayout packed(const ValueLayout& layout);
/// Number of elements that a value with a packed layout occupies, including unused lanes.
int64_t packed_elems(const ValueLayout& layout);
/// Whether both layouts have the same type and shape, so that compare_values() and copy_value() apply.
bool same_value(const ValueLayout& a, const ValueLayout& b);
/// A range of elements, counted from the buffer's start.
struct ElementRange {
  int64_t begin = 0, end = 0;
};
/// The smallest range that contains the value, including its halo. Throws bad_input if a stride, block or offset is
/// impossible or if rank and strides do not match.
ElementRange range_of(const ValueLayout& layout);

/// Copies a value from one layout to another. Unused lanes keep their contents.
void copy_value(const ValueLayout& from_layout, const std::byte* from, const ValueLayout& to_layout, std::byte* to);

/// Largest finite magnitude of the value's elements.
double largest_magnitude(const ValueLayout& layout, const std::byte* data);

struct ValueDifference {
  double most = 0;     ///< largest absolute difference
  int64_t unlike = 0;  ///< elements that are NaN or infinite in only one value, or differently in the two
  int64_t elems = 0;   ///< of the value
};
/// Compares element by element. Two NaNs count as equal, and so do two infinities of the same sign.
ValueDifference compare_values(const ValueLayout& want_layout, const std::byte* want, const ValueLayout& got_layout,
                               const std::byte* got);

/// Returns "" if the unused lanes of the last block and the halo of a blocked f32 value are 0, as kernels that read it
/// require; otherwise a description of the fault.
std::string padding_damage(const ValueLayout& layout, const std::byte* data);

}  // namespace kilter::tune
