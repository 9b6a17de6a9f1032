// The register tile that contractions share: rows (pixels, tiles, keys) x vectors of columns are kept in registers over
// the whole reduction; each step loads `vectors` vectors and broadcasts one element a row.
#pragma once

#include <algorithm>
#include <cstdint>

#include "loop/target.h"

namespace kilter {

/// Steps of a reduction that are unrolled: more makes LLVM's scheduler hoist broadcasts and spill (measured).
constexpr int64_t kReductionUnroll = 4;
/// Elements that streamed weights are prefetched ahead, 8 KiB: closer hurts, further is level (measured).
constexpr int64_t kPrefetchAhead = 2048;

/// Parts of `size` that cover `extent`.
inline int64_t ceil_div(int64_t extent, int64_t size) { return (extent + size - 1) / size; }

/// Rows that fit the registers beside `vectors` vectors and one broadcast (two without FMA, for the product); may be 0.
inline int64_t register_rows(int64_t vectors, const TargetLimits& limits) {
  const int64_t free = limits.vector_registers - vectors - (limits.fma ? 1 : 2);
  return std::max<int64_t>(free / vectors, 0);
}

/// Cycles of one step on a core with two FMA and two load ports, at least the latency of an FMA.
inline double step_cycles(int64_t rows, int64_t vectors) {
  constexpr double kLatency = 4;
  return std::max({static_cast<double>(rows * vectors) / 2, static_cast<double>(rows + vectors) / 2, kLatency});
}

}  // namespace kilter
