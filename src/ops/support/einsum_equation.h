// The equation of an Einsum node, resolved against the shapes of its operands.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "ops/op.h"

namespace kilter {

/// Labels are numbered from 0. Each dimension that an ellipsis represents has its own label, shared by all operands
/// (aligned at the end, as numpy broadcasts).
struct EinsumEquation {
  std::vector<std::vector<int32_t>> operands;  ///< label of each dimension of each operand
  std::vector<int32_t> output;                 ///< labels of the output, each once
  std::vector<int64_t> extents;                ///< by label; an operand's dimension of 1 broadcasts to it

  Shape output_shape() const;
};

/// Parses the equation. Throws bad_model naming the equation if it is malformed or does not fit the shapes.
EinsumEquation parse_einsum(const Node& node, std::string_view equation, std::span<const Shape> shapes);

}  // namespace kilter
