// Building blocks of OpDef::scalar hooks. Arithmetic on f16 and bf16 operands is done in f32 and rounded once.
#pragma once

#include <optional>
#include <span>

#include "loop/expr.h"
#include "ops/op.h"

namespace kilter {

/// Returns the operand in the type used for arithmetic: f32 for f16 and bf16, otherwise unchanged.
inline Expr wide(const Expr& x) { return x.elem() == DType::f16 || x.elem() == DType::bf16 ? cast(DType::f32, x) : x; }
/// Returns the type that elements have in loop IR: that of the values, and u8 for narrow types, of which kernels see
/// the codes.
inline DType loop_type(DType type) { return is_narrow(type) ? DType::u8 : type; }
/// Returns a constant of the operand's element type, rounded to it.
inline Expr like(const Expr& x, double value) { return imm(x.elem(), value); }
/// Whether sin, cos, tan, erf, pow and mod have a loop form for elements of this type; they are evaluated in f32. The
/// other elementary functions (exp, log, tanh, sigmoid, asin, ...) have one for every float type.
inline bool has_f32_math(DType type) { return type == DType::f32 || type == DType::f16 || type == DType::bf16; }

/// Returns f(in 0, ...) of widened operands, converted to the type of output 0.
template <class F>
std::optional<Expr> scalar_unary(const OpView& op, std::span<const Expr> in, F f) {
  return cast(op.outputs[0].dtype, f(wide(in[0])));
}
template <class F>
std::optional<Expr> scalar_binary(const OpView& op, std::span<const Expr> in, F f) {
  return cast(op.outputs[0].dtype, f(wide(in[0]), wide(in[1])));
}
/// Like scalar_unary, for an f that uses functions of has_f32_math().
template <class F>
std::optional<Expr> scalar_f32_math(const OpView& op, std::span<const Expr> in, F f) {
  if (!has_f32_math(in[0].elem())) return std::nullopt;
  return scalar_unary(op, in, f);
}
/// Like scalar_unary, for an f that only makes sense for floats.
template <class F>
std::optional<Expr> scalar_float(const OpView& op, std::span<const Expr> in, F f) {
  if (!is_float(in[0].elem())) return std::nullopt;
  return scalar_unary(op, in, f);
}

}  // namespace kilter
