// Indices that come at run time.
#pragma once

#include "loop/loop.h"

namespace kilter {

/// Element `i` of `indices` as a place in [0, extent): negative ones count from the end, those beyond either end are
/// clamped, so that no input makes a kernel leave its buffers.
inline Expr place_of(LoopBuilder& b, const Buf& indices, const Expr& i, int64_t extent) {
  const Expr raw = b.let("raw", cast(DType::i64, b.load(indices, i)));
  const Expr wrapped = b.let("wrapped", select(binary(Op::lt, raw, Expr(0)), raw + Expr(extent), raw));
  return b.let("row", max(Expr(0), min(wrapped, Expr(extent - 1))));
}

}  // namespace kilter
