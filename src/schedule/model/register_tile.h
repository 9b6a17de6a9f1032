// The register tile that contractions share: rows (pixels, tiles, keys) x vectors of columns stay in registers over the
// whole reduction. Each step loads `vectors` vectors and broadcasts one element per row.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/align.h"
#include "loop/loop.h"
#include "schedule/schedule.h"

namespace kilter {

/// The operands of a contraction's multiplications. A step of the reduction multiplies `group` neighbours in each
/// operand, which one 32-bit word holds: 1 of f32, or 2 of bf16 with dot() and sums of f32.
struct Multiplicands {
  DType type = DType::f32;
  int64_t group = 1;

  /// bf16 if the data are stored so and the target has the instruction, otherwise f32.
  static Multiplicands of(const TensorType& data, const CpuLimits& limits) {
    const bool pairs =
        data.layout.stored == DType::bf16 && limits.has_dot(DType::bf16, DType::bf16, limits.lanes_f32());
    return pairs ? Multiplicands{DType::bf16, 2} : Multiplicands{};
  }
  int64_t bytes() const { return size_bytes(type); }
  /// The limits with the rate and the latency of these multiplications in place of those of f32.
  CpuLimits limits(CpuLimits limits) const {
    if (group == 1) return limits;
    limits.fmas_per_cycle = limits.bf16_dots_per_cycle;
    limits.latency = limits.dot_latency;
    return limits;
  }
  /// Loads the group at `at` into all lanes. `count`: elements of the group that exist; the others are 0.
  Expr spread(LoopBuilder& b, const Buf& from, const Expr& at, int32_t lanes, int64_t count) const {
    if (group == 1) return b.load(from, at, lanes, 0);
    const Expr word = count == group ? bitcast(DType::i32, b.load_raw(from, at, static_cast<int32_t>(group)))
                                     : cast(DType::i32, bitcast(DType::u16, b.load_raw(from, at)));
    return bitcast(type, broadcast(word, lanes));
  }
  /// Loads the packed groups of `lanes` columns, which lie one after another.
  Expr columns(LoopBuilder& b, const Buf& from, const Expr& at, int32_t lanes) const {
    return group == 1 ? b.load(from, at, lanes) : b.load_raw(from, at, lanes * static_cast<int32_t>(group));
  }
  /// Adds the products of two such vectors to `sum`.
  Expr multiply(const Expr& a, const Expr& b, const Expr& sum) const {
    return group == 1 ? fma(a, b, sum) : dot(a, b, sum);
  }
};

/// Unrolled reduction steps: with more, LLVM's scheduler hoists broadcasts and spills (measured).
constexpr int64_t kReductionUnroll = 4;

/// Bytes per cycle at which a core rereads `bytes` that it has touched before.
double reread_rate(int64_t bytes, const CpuLimits& limits);
/// Cycles of arithmetic together with a stream: the longer of the two plus half of the shorter, since they overlap in
/// part (measured).
inline double beside(double arithmetic, double stream) {
  return std::max(arithmetic, stream) + std::min(arithmetic, stream) / 2;
}

/// The number of rows that fit in registers along with `vectors` vectors and one broadcast (two without FMA, for the
/// product); may be 0.
inline int64_t register_rows(int64_t vectors, const CpuLimits& limits) {
  const int64_t free = limits.vector_registers - vectors - (limits.fma ? 1 : 2);
  return std::max<int64_t>(free / vectors, 0);
}

/// Cycles of one step, at least the latency of a multiply-add. `half`: only the lower half of the last vector is used.
inline double step_cycles(int64_t rows, int64_t vectors, const CpuLimits& limits, bool half = false) {
  const int64_t broadcasts = half && vectors > 1 ? 2 * rows : rows;  // half vectors need their own broadcasts
  const double loads = static_cast<double>(broadcasts + vectors) / (limits.load_share * limits.loads_per_cycle);
  const double used = static_cast<double>(vectors) - (half ? 0.5 : 0);
  return std::max({static_cast<double>(rows) * used / limits.fmas_per_cycle, loads, limits.latency});
}

/// Slowdown of convolution tiles that fit in registers but spill nevertheless. Without FMA, LLVM loads three broadcasts
/// ahead of their use, and a 6x2 tile takes 1.15 to 1.2 times as long per row as 4x2 (measured). Matrix products are
/// not affected.
inline double spilling(int64_t rows, int64_t vectors, const CpuLimits& limits) {
  constexpr int64_t kBroadcasts = 3, kProducts = 2;
  const bool fits = limits.fma || (rows + 1) * vectors + kBroadcasts + kProducts <= limits.vector_registers;
  return fits ? 1 : limits.spill_slowdown;
}

}  // namespace kilter
