// The register tile that contractions share: rows (pixels, tiles, keys) x vectors of columns stay in registers over the
// whole reduction. Each step loads `vectors` vectors and broadcasts one element per row.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/align.h"
#include "base/tensor.h"
#include "loop/loop.h"
#include "schedule/schedule.h"

namespace kilter {

/// The operands of a contraction's multiplications. A step of the reduction multiplies `group` neighbours in each
/// operand; together, these fill a 32-bit word. A group is 1 element of f32 or, with dot(), 2 of bf16 with sums of f32,
/// or 4 of u8 with weights of i8 and sums of i32. If the target has no instruction for bytes, either pairs of bytes are
/// summed in i16 first, or bytes become i16 when they are loaded and are multiplied in groups of 2. A packed operand of
/// f16 becomes f32 when it is loaded.
struct Multiplicands {
  DType type = DType::f32;  ///< of the packed operand; if i16, it is packed as i8
  int64_t group = 1;
  bool pairs = false;  ///< pairs of u8 and i8 are summed in i16, which saturates unless the weights are packed for it

  /// For vectors: pairs of bf16 or groups of u8 if the data are stored in this type and the target has an instruction
  /// for it that is faster than f32; i16 if the target has one only for i16; otherwise f32. If the instruction for bf16
  /// is slower than f32, weights are packed as bf16 all the same, which takes half of the memory, and are widened.
  /// `packed`: the type of the operand that is packed at compile time; `sum`: the type of the contraction's results.
  static Multiplicands of(const TensorType& data, const TensorType& packed, DType sum, const CpuLimits& limits) {
    if (stores_bf16(data, sum) && limits.bf16_dots_per_cycle > 0)
      return {DType::bf16, limits.multiplies_bf16() ? 2 : 1};
    if (stores_bytes(data, sum) && limits.multiplies_bytes()) return of_integers(limits);
    return packed.layout.stored == DType::f16 ? Multiplicands{DType::f16, 1} : Multiplicands{};
  }
  /// For tile registers: those that the target has for the data; group is 1 if it has none.
  static Multiplicands of_tiles(const TensorType& data, DType sum, const CpuLimits& limits) {
    if (stores_bf16(data, sum) && limits.bf16_tiles) return {DType::bf16, 2};
    return stores_bytes(data, sum) && limits.byte_tiles ? bytes_of_words() : Multiplicands{};
  }
  /// Whether the data are stored as bf16 and sums are f32.
  static bool stores_bf16(const TensorType& data, DType sum) {
    return data.layout.stored == DType::bf16 && sum == DType::f32;
  }
  /// Whether the data are stored as bytes and sums are integers.
  static bool stores_bytes(const TensorType& data, DType sum) {
    return data.layout.stored == DType::u8 && sum == DType::i32;
  }
  static Multiplicands bytes_of_words() { return {DType::u8, 4}; }
  /// The multiplicands of bytes for a target that has an instruction for bytes or for i16.
  static Multiplicands of_integers(const CpuLimits& limits) {
    return limits.has_dot(DType::u8, DType::i8, limits.lanes_f32()) ? bytes_of_words() : Multiplicands{DType::i16, 2};
  }
  static Multiplicands byte_pairs() { return {DType::u8, 4, true}; }
  /// The multiplicands of data stored as bytes: integers, unless the target has no instruction for them and f32 sums
  /// are exact; then f32.
  template <class Exact>
  static Multiplicands of_bytes(const TensorType& data, const TensorType& packed, const CpuLimits& limits,
                                Exact exact_in_f32) {
    const Multiplicands best = of(data, packed, DType::i32, limits);
    return best.group > 1 || exact_in_f32() ? best : bytes_of_words();
  }

  bool integers() const { return type == DType::u8 || type == DType::i16; }
  /// Whether data of this type become f32 or i16 before they are multiplied. Converting a whole vector is cheaper than
  /// converting each of its elements when it is broadcast.
  bool widens(const TensorType& data) const {
    return type == DType::i16 || (group == 1 && data.layout.stored.has_value());
  }
  /// The type of data that are multiplied, once they are widened.
  DType widened() const { return group == 1 ? DType::f32 : type; }
  int64_t bytes() const { return size_bytes(weights()); }
  DType weights() const { return integers() ? DType::i8 : type; }
  DType sum() const { return integers() ? DType::i32 : DType::f32; }
  /// The limits with the rate and the latency of these multiplications in place of those of f32. Products of i16 need a
  /// register before they are added, like those of f32 on targets without multiply-adds.
  CpuLimits limits(CpuLimits limits) const {
    if (group == 1) return limits;
    const double rate = pairs                ? limits.word_dots_per_cycle / 2
                        : type == DType::u8  ? limits.byte_dots_per_cycle
                        : type == DType::i16 ? limits.word_dots_per_cycle
                                             : limits.bf16_dots_per_cycle;
    limits.fmas_per_cycle = std::max(static_cast<int32_t>(rate), 1);
    const bool added = pairs || type == DType::i16;  // by a separate instruction
    limits.latency = added ? limits.short_latency : limits.dot_latency;
    limits.fma = limits.fma && !added;
    return limits;
  }
  /// Loads `lanes` neighbours in the type in which they are multiplied.
  Expr widen(LoopBuilder& b, const Buf& from, const Expr& at, int32_t lanes) const {
    return group == 1 ? b.load(from, at, lanes) : cast(type, b.load_raw(from, at, lanes));
  }
  /// Loads the group at `at` and broadcasts it to all lanes. The data must not need widening. `count`: elements of the
  /// group that exist; the others are 0.
  Expr spread(LoopBuilder& b, const Buf& from, const Expr& at, int32_t lanes, int64_t count) const {
    if (group == 1) return b.load(from, at, lanes, 0);
    if (count == group)
      return bitcast(type, broadcast(bitcast(DType::i32, b.load_raw(from, at, static_cast<int32_t>(group))), lanes));
    const DType bits = type == DType::u8 ? DType::u8 : DType::u16;
    Expr word = imm_int(DType::i32, 0);
    for (int64_t i = 0; i < count; ++i) {
      const Expr element = cast(DType::i32, bitcast(bits, b.load_raw(from, at + Expr(i))));
      word = binary(Op::bit_or, word, binary(Op::shl, element, imm_int(DType::i32, 32 / group * i)));
    }
    return bitcast(type, broadcast(word, lanes));
  }
  /// Loads the packed groups of `lanes` columns, which lie one after another.
  Expr columns(LoopBuilder& b, const Buf& from, const Expr& at, int32_t lanes) const {
    if (group == 1) return cast(DType::f32, b.load(from, at, lanes));
    const Expr packed = b.load_raw(from, at, lanes * static_cast<int32_t>(group));
    return type == DType::i16 ? cast(type, packed) : packed;
  }
  /// Adds the products of two such vectors to `sum`.
  Expr multiply(const Expr& a, const Expr& b, const Expr& sum) const {
    if (group == 1) return fma(a, b, sum);
    if (!pairs) return dot(a, b, sum);
    const int32_t words = a.lanes() / 2;
    return dot(dot(a, b, imm_int(DType::i16, 0, words)), imm_int(DType::i16, 1, words), sum);
  }
};

/// Checks that f32 can represent every sum of products of integers of at most 255 with weights whose magnitudes sum to
/// at most `weights` for each result.
std::optional<Rejected> check_exact_sums(double weights);
/// Whether the weights are integers that i8 can represent.
bool fit_i8(const Tensor& w);

/// The lanes of two vectors alternately, a0 b0 a1 b1 ..., in the order in which pairs of multiplicands are stored in
/// memory.
Expr interleaved(const Expr& a, const Expr& b);

/// Unrolled reduction steps: with more, LLVM's scheduler hoists broadcasts and spills (measured).
constexpr int64_t kReductionUnroll = 4;

/// Bytes per cycle at which a core rereads `bytes` that it has touched before.
double reread_rate(int64_t bytes, const CpuLimits& limits);
/// Cycles of arithmetic that overlaps with a stream: the longer of the two plus half of the shorter, since they overlap
/// only in part (measured).
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
