// Helpers for operators that read or write at indices from a tensor.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/index_fault.h"
#include "ops/support/elementwise.h"
#include "ops/support/operands.h"

namespace kilter {

/// Returns the range of the index operand (input 1) of a node that selects from its first operand by index or writes
/// there: Gather, GatherElements, GatherND, ScatterElements, Scatter and ScatterND. Returns nothing for other
/// operators.
std::optional<IndexRange> index_range(const Node& node, const Shape& data, const Shape& indices);

/// Returns element i of the indices, made non-negative. Throws bad_input naming it if it is out of range.
int64_t checked_index(const Node& node, const Tensor& indices, int64_t i, const IndexRange& range);
/// Throws bad_model unless input i has elements of i32 or i64.
void check_indices(const InferContext& ctx, size_t i);
/// Throws bad_model naming the first constant index out of range, for the nodes of index_range().
void check_constant_indices(const InferContext& ctx);
void check_constant_indices(const Node& node, const Shape& data, const Tensor& indices);
/// Copies to[j + k] = from[i + k] for k < count. The tensors must have the same element type, which may be any.
void copy_elements(const Tensor& from, int64_t i, const Tensor& to, int64_t j, int64_t count);

/// The way in which a scatter combines a value with the element that is already there.
enum class Combine { replace, add, mul, max, min };
/// Returns the attribute `reduction`.
Combine combine_of(const Node& node);
/// Sets to[j] to the combination of to[j] and from[i]. Strings can only be replaced.
void combine_element(const Node& node, Combine how, const Tensor& from, int64_t i, const Tensor& to, int64_t j);

}  // namespace kilter
