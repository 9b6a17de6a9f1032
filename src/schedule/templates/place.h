// Indices computed at run time.
#pragma once

#include "loop/loop.h"

namespace kilter {

/// Element `i` of `indices` as a position in [0, extent). Negative indices count from the end. An index out of range
/// fails the kernel's check and counts as 0, so that no input makes a kernel leave its buffers.
inline Expr place_of(LoopBuilder& b, const Buf& indices, const Expr& i, int64_t extent) {
  const Expr raw = b.let("raw", cast(DType::i64, b.load(indices, i)));
  const Expr wrapped = b.let("wrapped", select(binary(Op::lt, raw, Expr(0)), raw + Expr(extent), raw));
  // As unsigned numbers, negative indices exceed the extent.
  const Expr inside = b.let("inside", binary(Op::lt, bitcast(DType::u64, wrapped), imm_int(DType::u64, extent)));
  b.check(inside);
  return b.let("row", select(inside, wrapped, Expr(0)));
}

}  // namespace kilter
