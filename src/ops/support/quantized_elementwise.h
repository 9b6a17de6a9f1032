// Element-wise operators on quantised tensors, each of which has one scale and one zero point for the whole tensor.
// Their inputs are, for one operand, x, x_scale, x_zero_point, y_scale, y_zero_point, and for two operands, a, a_scale,
// a_zero_point, b, b_scale, b_zero_point, c_scale, c_zero_point. Zero points may be omitted; they are then 0. All
// values and zero points have one type, i8 or u8.
#pragma once

#include <functional>
#include <optional>
#include <span>

#include "ops/op.h"
#include "ops/support/quantized.h"

namespace kilter {

/// The shape rules: the output has the type of the values, and their shape, or for two operands the broadcast shape.
void infer_quantized_unary(InferContext& ctx);
void infer_quantized_binary(InferContext& ctx);

/// An operand's element without its zero point, and its scale.
struct Quantity {
  double value = 0;
  double scale = 1;
};
/// Reference kernels. `f` returns the real result, which is divided by the scale of the output and rounded once.
void reference_quantized_unary(ReferenceContext& ctx, const std::function<Wide(Quantity)>& f);
void reference_quantized_binary(ReferenceContext& ctx, const std::function<Wide(Quantity, Quantity)>& f);

/// Scalar expression in f64. `f` maps the real value to the real result. Quotients have relative errors of about 2^-52,
/// so their rounding can differ from that of the reference kernel only within that of a tie. Nullopt if a scale or zero
/// point has more dimensions than the output, to which it then cannot be broadcast.
std::optional<Expr> scalar_quantized_unary(const OpView& op, std::span<const Expr> in, Expr (*f)(const OpView&, Expr));

}  // namespace kilter
