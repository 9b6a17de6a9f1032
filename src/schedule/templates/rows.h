// Loops over one contiguous row: in vectors with a masked tail, for templates that pass over a row several times, and
// in parts that threads share.
#pragma once

#include <functional>

#include "loop/loop.h"

namespace kilter {

/// Calls body(position, mask, copy) for vectors that cover [0, extent); the mask is undefined for whole vectors. The
/// main loop is unrolled `unroll` times. `copy` numbers the unrolled copies, for separate accumulators.
inline void for_vectors(LoopBuilder& b, int64_t extent, int32_t lanes, int64_t unroll,
                        const std::function<void(const Expr& at, const Expr& mask, int64_t which)>& body) {
  const int64_t step = lanes * unroll;
  const int64_t full = extent / step * step;
  b.loop("v", 0, full, step, [&](const Expr& v) {
    for (int64_t u = 0; u < unroll; ++u) body(v + Expr(u * lanes), {}, u);
  });
  for (int64_t at = full; at < extent; at += lanes) {
    const int64_t left = extent - at;
    body(Expr(at), left >= lanes ? Expr() : first_lanes(Expr(left), lanes), 0);
  }
}

/// Pixels per item in a row of a blocked image: 8 KiB of f32 at 16 lanes, well within L1.
constexpr int64_t kRowPixels = 128;

/// Calls body(first, count) for each part of [0, extent); all parts but the last have `size` elements. Several parts
/// form a parallel dimension, so call this before emitting any statement.
inline void parallel_parts(LoopBuilder& b, const std::string& name, int64_t extent, int64_t size,
                           const std::function<void(const Expr& first, int64_t count)>& body) {
  if (extent <= size) return body(Expr(0), extent);
  const int64_t full = extent / size, rest = extent % size;
  const Expr part = b.parallel(name, full + (rest > 0 ? 1 : 0));
  const auto whole = [&] { body(part * Expr(size), size); };
  if (rest == 0) return whole();
  b.if_then(binary(Op::lt, part, Expr(full)), whole, [&] { body(Expr(full * size), rest); });
}

/// The dimension that counts positions in a row over dimensions `first` and later: the last one with more than one
/// element, since dimensions of extent 1 have no stride.
inline size_t innermost(const Shape& shape, size_t first) {
  size_t d = shape.size() - 1;
  while (d > first && shape[d] == 1) --d;
  return d;
}

}  // namespace kilter
