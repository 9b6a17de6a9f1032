// What a step leaves behind, as the worker needs it to compare two variants of a network: where a logical value lies.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/tensor.h"
#include "exec/plan.h"

namespace kilter::tune {

/// A logical value in memory. Two variants of a network describe the same values (name, type, shape) in layouts that
/// may differ.
struct ValueLayout {
  DType type = DType::f32;
  Shape shape;                    ///< logical
  int64_t block = 1;              ///< dimension 1 is split into blocks of so many, which lie together
  std::array<int64_t, 4> halo{};  ///< zeros around rows (before, after) and columns, inside the buffer
  Shape strides;       ///< elements; of each dimension (dimension 1: of its blocks), then of lanes when blocked
  int64_t offset = 0;  ///< elements from the buffer's start to logical element 0
};

/// How far a value of a float type may be from the one it is compared with, of its largest magnitude; `kilter run
/// --verify` and the check of candidates take the same. Half and bfloat16 may be a few roundings apart beside it,
/// integers one.
constexpr double kDefaultTolerance = 1e-3;

struct StepValue {
  std::string name;  ///< of the value, the same in all variants
  size_t step = 0;   ///< that writes it
  BufferRef buffer;
  ValueLayout layout;
  double tolerance = kDefaultTolerance;  ///< of the largest magnitude
};

/// The same value without gaps, in the same order of dimensions: what a copy of it needs.
ValueLayout packed(const ValueLayout& layout);
/// Elements of memory between the first and the last of a packed layout, unused lanes included.
int64_t packed_elems(const ValueLayout& layout);
/// Whether both are of one type and shape, so that compare() and copy() apply.
bool same_value(const ValueLayout& a, const ValueLayout& b);
/// Elements that `layout` reaches from the buffer's start on, halo included; throws bad_input when a stride, block or
/// offset is impossible or rank and strides do not match.
int64_t reach_elems(const ValueLayout& layout);

/// Copies a value from one layout to another; unused lanes are left as they are.
void copy_value(const ValueLayout& from_layout, const std::byte* from, const ValueLayout& to_layout, std::byte* to);

/// Largest finite magnitude of the value's elements.
double largest_magnitude(const ValueLayout& layout, const std::byte* data);

struct ValueDifference {
  double most = 0;     ///< largest absolute difference
  int64_t unlike = 0;  ///< elements that are NaN or infinite in one and not, or otherwise, in the other
  int64_t elems = 0;   ///< of the value
};
/// Element by element. NaN against NaN and an infinity against the same are no difference.
ValueDifference compare_values(const ValueLayout& want_layout, const std::byte* want, const ValueLayout& got_layout,
                               const std::byte* got);

/// "" when unused lanes of the last block and the halo of a blocked f32 value hold 0, as kernels that read it rely on;
/// else what was found.
std::string padding_damage(const ValueLayout& layout, const std::byte* data);

}  // namespace kilter::tune
