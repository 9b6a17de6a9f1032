// Sums of products with constants, which are evaluated in f64. Their inputs are x_0, m_0, x_1, m_1, ..., c: elements of
// f32 or i32 with factors of f64, and a summand of f64. Factors and summand broadcast to the values.
#pragma once

#include <optional>
#include <span>

#include "ops/op.h"

namespace kilter {

/// The shape rule: the output is f32 and has the broadcast shape of all inputs.
void infer_weighted_sum(InferContext& ctx);
/// Returns x_0 * m_0 + x_1 * m_1 + ... + c, f64, for every element of the output.
std::vector<double> weighted_sums(const ReferenceContext& ctx);
/// A bound of the sum of the magnitudes of c and of all products except the largest. Nullopt if factors or c are not
/// constant, or if more than one x is unbounded, that is, not stored as bytes.
std::optional<double> magnitudes_beside_one(const OpView& op);

/// `whole` as an f32, where the low bits of the f64 `whole` are an integer: it is the integer plus kWhole.
Expr integer_in_low_bits(const Expr& whole);
constexpr double kWhole = 0x1.8p52;

/// weighted_sums() plus `by`, which is added to c before c is rounded to f32, with operands and sums of f32.
Expr scalar_weighted_sum_f32(const OpView& op, std::span<const Expr> in, double by);
/// The same as weighted_sums() as a scalar expression. Operands that were converted from integers are read as the
/// integers.
Expr scalar_weighted_sum(const OpView& op, std::span<const Expr> in);

}  // namespace kilter
