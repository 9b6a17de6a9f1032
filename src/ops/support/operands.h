// Operands that steer an operator (axes, pads, shapes), read the same way in shape rules, reference kernels and hooks.
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

/// The value of input i, nullptr when the input is left out. InferContext throws NeedsValue when the value is not known
/// at compile time; for an OpView ask known() first.
inline const Tensor* operand(const InferContext& ctx, size_t i) { return ctx.has(i) ? &ctx.needed(i) : nullptr; }
inline const Tensor* operand(const ReferenceContext& ctx, size_t i) { return ctx.has(i) ? &ctx.in(i) : nullptr; }
inline const Tensor* operand(const OpView& view, size_t i) { return i < view.values.size() ? view.values[i] : nullptr; }

inline bool has_operand(const OpView& view, size_t i) { return i < view.present.size() && view.present[i]; }
/// Whether every input from `first` on that is present is a constant.
bool known(const OpView& view, size_t first);

/// The integers of a steering operand; node_error when it is not an integer tensor of rank 0 or 1.
std::vector<int64_t> operand_ints(const Node& node, const Tensor& value, std::string_view what);

/// The list that input i gives, else attribute `key`, else nullopt: many operators turned an attribute into an input.
template <class Context>
std::optional<std::vector<int64_t>> ints_of(const Context& ctx, size_t i, std::string_view key) {
  if (const Tensor* value = operand(ctx, i)) return operand_ints(ctx.node, *value, key);
  if (ctx.node.has_attr(key)) return ctx.node.ints_attr(key);
  return std::nullopt;
}

/// The single integer of a steering operand of one element; node_error otherwise.
int64_t operand_int(const Node& node, const Tensor& value, std::string_view what);

/// Every axis made non-negative, in the order given; node_error when one is out of range or repeated.
std::vector<int64_t> normal_axes(const Node& node, const std::vector<int64_t>& axes, int64_t rank);
/// 0, 1, ..., rank - 1.
std::vector<int64_t> all_axes(int64_t rank);

/// Extents of a shape that comes from data: node_error when an operation leaves the range of a dimension.
int64_t checked_add(const Node& node, int64_t a, int64_t b);
int64_t checked_mul(const Node& node, int64_t a, int64_t b);
/// node_error unless every dimension is 0 or more and the product is at most 2^40.
void check_shape(const Node& node, const Shape& shape);

/// "expected N <what>, got M".
void check_count(const Node& node, std::string_view what, size_t expected, size_t got);

/// Output 0 has the element type of input 0 and this shape.
void set_same_dtype(InferContext& ctx, Shape shape);

}  // namespace kilter
