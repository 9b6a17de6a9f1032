// Products of two quantised matrices, each with a zero point and a scale for the whole matrix, or one for each row of
// the left matrix and for each column of the right one.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "ops/support/matmul_shape.h"
#include "ops/support/quantized.h"

namespace kilter {

/// Returns the shape in which a parameter of the left operand (`rows`: one element per row) or of the right operand
/// (one per column) broadcasts to that operand: none, [rows, 1] or [columns], or [..., rows, 1] or [..., 1, columns].
/// Throws bad_model, calling the parameter `what`.
Shape product_parameter_shape(const Node& node, const Shape& parameter, const Shape& operand, bool rows,
                              std::string_view what);

/// Calls emit(position in y, sum) for the product of inputs a and b, without their zero points, inputs a_zero and
/// b_zero, which may be omitted.
template <class Emit>
void multiply_quantized(const ReferenceContext& ctx, size_t a, size_t a_zero, size_t b, size_t b_zero, Emit emit) {
  const auto load = [&](size_t i, size_t zero, bool rows) {
    const Tensor& q = ctx.in(i);
    if (!ctx.has(zero)) return shifted(q, Tensor(), {});
    const Shape shape = product_parameter_shape(ctx.node, ctx.in(zero).shape(), q.shape(), rows, "zero point");
    return shifted(q, ctx.in(zero), shape);
  };
  const std::vector<int64_t> left = load(a, a_zero, true);
  const std::vector<int64_t> right = load(b, b_zero, false);
  const MatMulShape shape = matmul_shape(ctx.node, ctx.in(a).shape(), ctx.in(b).shape());
  matmul_rows<int64_t>(shape, left.data(), right.data(), [&](int64_t batch, int64_t i, std::span<const int64_t> row) {
    for (size_t j = 0; j < row.size(); ++j) emit((batch * shape.m + i) * shape.n + static_cast<int64_t>(j), row[j]);
  });
}

}  // namespace kilter
