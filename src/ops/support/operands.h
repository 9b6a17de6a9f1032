// Operands that control an operator (axes, pads, shapes), read the same way in shape rules, reference kernels and
// hooks.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "ops/op.h"
#include "ops/support/builder.h"

namespace kilter {

inline const Shape& shape_of(const InferContext& ctx, size_t i) { return ctx.shape(i); }
inline const Shape& shape_of(const ReferenceContext& ctx, size_t i) { return ctx.in(i).shape(); }
inline const Shape& shape_of(const OpView& view, size_t i) { return view.inputs.at(i).shape; }

/// Returns the value of input i, or nullptr if the input is omitted. For an InferContext, throws NeedsValue if the
/// value is not known at compile time; for an OpView, check known() first.
inline const Tensor* operand(const InferContext& ctx, size_t i) { return ctx.has(i) ? &ctx.needed(i) : nullptr; }
inline const Tensor* operand(const ReferenceContext& ctx, size_t i) { return ctx.has(i) ? &ctx.in(i) : nullptr; }
inline const Tensor* operand(const OpView& view, size_t i) { return i < view.values.size() ? view.values[i] : nullptr; }

inline bool has_operand(const OpView& view, size_t i) { return i < view.present.size() && view.present[i]; }
/// Whether all present inputs from `first` on are constants.
bool known(const OpView& view, size_t first);

/// Returns the integers of a control operand. Throws node_error if it is not an integer tensor of rank 0 or 1.
std::vector<int64_t> operand_ints(const Node& node, const Tensor& value, std::string_view what);

/// Returns the list given by input i, else by attribute `key`, else nullopt. In many operators, a newer opset turned an
/// attribute into an input.
template <class Context>
std::optional<std::vector<int64_t>> ints_of(const Context& ctx, size_t i, std::string_view key) {
  if (const Tensor* value = operand(ctx, i)) return operand_ints(ctx.node, *value, key);
  if (ctx.node.has_attr(key)) return ctx.node.ints_attr(key);
  return std::nullopt;
}

/// Returns the single integer of a control operand with one element. Throws node_error otherwise.
int64_t operand_int(const Node& node, const Tensor& value, std::string_view what);

/// Returns every axis made non-negative, in the order given. Throws node_error if one is out of range or repeated.
std::vector<int64_t> normal_axes(const Node& node, const std::vector<int64_t>& axes, int64_t rank);
/// Returns 0, 1, ..., rank - 1.
std::vector<int64_t> all_axes(int64_t rank);

/// Arithmetic on extents that come from data. Throws node_error if a result leaves the range of a dimension.
int64_t checked_add(const Node& node, int64_t a, int64_t b);
int64_t checked_mul(const Node& node, int64_t a, int64_t b);
/// Throws node_error unless every dimension is 0 or more and the product is at most 2^40.
void check_shape(const Node& node, const Shape& shape);

/// Throws node_error "expected N <what>, got M" if the two differ.
void check_count(const Node& node, std::string_view what, size_t expected, size_t got);

/// Gives output 0 the element type of input 0 and this shape.
void set_same_dtype(InferContext& ctx, Shape shape);

}  // namespace kilter
