// Arithmetic of the loop IR on host values, for constant folding and the interpreter. Elements are in their memory form
// (float bits, integers, one byte 0 or 1 for boolean). `lanes` of them are adjacent in memory, aligned for their type.
#pragma once

#include <cstddef>
#include <cstdint>

#include "loop/expr.h"

namespace kilter::eval {

// `type` is the operands' element type; comparisons and is_nan give booleans. The operation must be legal for the type
// (the constructors of expr.h check that). f16 and bf16 compute in f32 and round once per operation. Transcendental f32
// functions compute in f64 and round.
void unary(Op op, DType type, int32_t lanes, const std::byte* a, std::byte* out);
void binary(Op op, DType type, int32_t lanes, const std::byte* a, const std::byte* b, std::byte* out);
/// Computes a * b + c, rounded once; floats only.
void fma(DType type, int32_t lanes, const std::byte* a, const std::byte* b, const std::byte* c, std::byte* out);
/// Computes dot() of expr.h: `lanes` sums, each of `group` products in order.
void dot(DType a_type, DType b_type, int32_t lanes, int32_t group, const std::byte* a, const std::byte* b,
         const std::byte* acc, std::byte* out);
void cast(DType from, DType to, int32_t lanes, const std::byte* a, std::byte* out);
void lane_reduce(Op op, DType type, int32_t lanes, const std::byte* a, std::byte* out);

/// Writes the value of an immediate into `lanes` elements.
void write_imm(const ExprNode& imm, int32_t lanes, std::byte* out);
/// Returns the scalar immediate of `type` that these bytes represent.
Expr read_imm(DType type, const std::byte* value);

}  // namespace kilter::eval
