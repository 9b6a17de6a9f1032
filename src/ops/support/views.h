// Stride arithmetic of views.
#pragma once

#include <optional>
#include <vector>

#include "ops/op.h"

namespace kilter {

/// Returns strides with which the elements of (shape, strides), taken in row-major order, have shape `to`, or nullopt
/// if that needs a copy.
std::optional<Shape> view_strides(const Shape& shape, const Shape& strides, const Shape& to);
/// For a Slice or Split that selects whole channels in a contiguous range, returns the channel of the input [n, c, h,
/// w] at which output `output` begins. Returns nullopt for everything else. `of` is the node's view(), which is the
/// same for all outputs.
std::optional<int64_t> first_channel(const Graph& graph, const OpView& of, size_t output);
/// Returns the permutation of a Transpose node.
std::vector<int64_t> transpose_perm(const Node& node, int64_t rank);

}  // namespace kilter
