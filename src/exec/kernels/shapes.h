// Shapes and element types for runtime kernels.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>

#include "exec/kernels/kernel.h"

namespace kilter {

/// Returns whether operand i is present and has elements of this type.
inline bool has_type(KernelOperands operands, size_t i, DType type) {
  return i < operands.size() && operands[i].present && operands[i].type == type;
}
inline bool left_out(KernelOperands operands, size_t i) { return i >= operands.size() || !operands[i].present; }

/// Returns an axis as non-negative, or nullopt if it is out of range.
inline std::optional<int64_t> legal_axis(int64_t axis, int64_t rank) {
  if (axis < -rank || axis >= rank) return std::nullopt;
  return axis < 0 ? axis + rank : axis;
}

/// Returns the product of the extents in [begin, end).
inline int64_t extent_product(std::span<const int64_t> shape, int64_t begin, int64_t end) {
  int64_t product = 1;
  for (int64_t d = begin; d < end; ++d) product *= shape[static_cast<size_t>(d)];
  return product;
}

/// A tensor as [outer, extent, inner], where the middle dimension is one of its axes.
struct AxisView {
  int64_t outer = 1, extent = 1, inner = 1;
};
inline AxisView along_axis(std::span<const int64_t> shape, int64_t axis) {
  return {extent_product(shape, 0, axis), shape[static_cast<size_t>(axis)],
          extent_product(shape, axis + 1, std::ssize(shape))};
}

/// Whether elements of the type have a fixed size, so that kernels can copy them as bytes.
inline bool copies_as_bytes(DType type) { return type != DType::string; }

}  // namespace kilter
