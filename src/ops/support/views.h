// Stride arithmetic of views.
#pragma once

#include <optional>
#include <vector>

#include "ops/op.h"

namespace kilter {

/// Strides under which the elements of (shape, strides), taken in row-major order, have shape `to`; nullopt when that
/// needs a copy.
std::optional<Shape> view_strides(const Shape& shape, const Shape& strides, const Shape& to);
/// The channel of its input [n, c, h, w] that output `output` of a Slice or Split begins at, where that is a run of
/// channels and whole otherwise; nullopt for everything else. `of` is the node's view(), one for all its outputs.
std::optional<int64_t> first_channel(const Graph& graph, const OpView& of, size_t output);
/// Permutation of a Transpose node.
std::vector<int64_t> transpose_perm(const Node& node, int64_t rank);

}  // namespace kilter
