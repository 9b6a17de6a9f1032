// Shared by the operators on sequences.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "ops/support/elementwise.h"

namespace kilter {

/// Returns the position that input `i`, one integer, selects among `count` elements, or, with `insert`, among the
/// places between them. Negative positions count from the end. Throws bad_model if it is out of range.
size_t sequence_position(const RunContext& ctx, size_t i, size_t count, bool insert);

/// Returns the elements [begin, begin + count) along an axis.
Tensor part_along(const Tensor& tensor, int64_t axis, int64_t begin, int64_t count);

/// Runs another operator of ai.onnx on tensors, and returns its first output.
Tensor run_operator(const Node& node, std::string_view op, std::vector<Tensor> inputs, Attrs attrs);

}  // namespace kilter
