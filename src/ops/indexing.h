// Operators that read or write at indices from a tensor.
#pragma once

#include <cstdint>
#include <string_view>

#include "ops/elementwise.h"
#include "ops/operands.h"

namespace kilter {

/// An index made non-negative; bad_input naming it when it is outside [-limit, limit).
int64_t checked_index(const Node& node, int64_t index, int64_t limit);
/// bad_model unless input i holds i32 or i64.
void check_indices(const InferContext& ctx, size_t i);
/// to[j + k] = from[i + k] for k < count; same element type, which may be any.
void copy_elements(const Tensor& from, int64_t i, const Tensor& to, int64_t j, int64_t count);

/// What a scatter does where something is already there.
enum class Combine { replace, add, mul, max, min };
/// Attribute `reduction`.
Combine combine_of(const Node& node);
/// Makes to[j] the combination of to[j] and from[i]. Strings can only be replaced.
void combine_element(const Node& node, Combine how, const Tensor& from, int64_t i, const Tensor& to, int64_t j);

}  // namespace kilter
