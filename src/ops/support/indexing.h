// Operators that read or write at indices from a tensor.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/index_fault.h"
#include "ops/support/elementwise.h"
#include "ops/support/operands.h"

namespace kilter {

/// The index operand of a node that selects from its first operand by index, or writes there: input 1 of Gather,
/// GatherElements, GatherND, ScatterElements, Scatter and ScatterND. Nothing for other operators.
std::optional<IndexRange> index_range(const Node& node, const Shape& data, const Shape& indices);

/// Element i of the indices, made non-negative; bad_input naming it when it is out of range.
int64_t checked_index(const Node& node, const Tensor& indices, int64_t i, const IndexRange& range);
/// bad_model unless input i holds i32 or i64.
void check_indices(const InferContext& ctx, size_t i);
/// bad_model naming the first constant index of a node of index_range() that is out of range.
void check_constant_indices(const InferContext& ctx);
void check_constant_indices(const Node& node, const Shape& data, const Tensor& indices);
/// to[j + k] = from[i + k] for k < count; same element type, which may be any.
void copy_elements(const Tensor& from, int64_t i, const Tensor& to, int64_t j, int64_t count);

/// What a scatter does where something is already there.
enum class Combine { replace, add, mul, max, min };
/// Attribute `reduction`.
Combine combine_of(const Node& node);
/// Makes to[j] the combination of to[j] and from[i]. Strings can only be replaced.
void combine_element(const Node& node, Combine how, const Tensor& from, int64_t i, const Tensor& to, int64_t j);

}  // namespace kilter
