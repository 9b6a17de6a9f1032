// Expands dot() into multiply-adds, for targets that have no instruction for it.
//
//   dot(a, b, acc), a and b bf16x32   =>   fma(odd(a), odd(b), fma(even(a), even(b), acc))
//
// Each group of a and b is one 32-bit word. A bf16 with 16 zero bits below it is an f32, so even(x) is the word shifted
// left and odd(x) is the word with its lower half cleared. Integers are extended to i32 by two shifts.
#include "loop/passes/math.h"

namespace kilter::loop_passes {
namespace {

constexpr int64_t kWordBits = 32;

/// Returns element `i` of every group of `x`, in the type of the sums.
Expr element(const Expr& x, int64_t i) {
  const int64_t bits = size_bytes(x.elem()) * 8;
  const DType type = x.elem() == DType::u8 ? DType::u32 : DType::i32;
  const Expr words = bitcast(type, x);
  const auto by = [&](int64_t count) { return imm_int(type, count, words.lanes()); };
  const Expr top = binary(Op::shl, words, by(kWordBits - bits * (i + 1)));
  if (!is_float(x.elem())) return bitcast(DType::i32, binary(Op::shr, top, by(kWordBits - bits)));
  return bitcast(DType::f32, i == 0 ? top : binary(Op::bit_and, words, by(-(int64_t{1} << bits))));
}

/// Returns element `i` of every pair of bytes in `x` as i32.
Expr byte_of_pair(const Expr& x, int64_t i) {
  const DType type = x.elem() == DType::u8 ? DType::u16 : DType::i16;
  const Expr words = bitcast(type, x);
  const auto by = [&](int64_t count) { return imm_int(type, count, words.lanes()); };
  const Expr top = i == 0 ? binary(Op::shl, words, by(8)) : words;
  return cast(DType::i32, binary(Op::shr, top, by(8)));
}

/// Sums in i16, which saturate.
Expr expand_pairs(const Expr& a, const Expr& b, const Expr& acc) {
  const auto saturated = [&](const Expr& v) {
    const auto bound = [&](int64_t value) { return imm_int(DType::i32, value, v.lanes()); };
    return min(max(v, bound(INT16_MIN)), bound(INT16_MAX));
  };
  const Expr pair = byte_of_pair(a, 0) * byte_of_pair(b, 0) + byte_of_pair(a, 1) * byte_of_pair(b, 1);
  return cast(DType::i16, saturated(cast(DType::i32, acc) + saturated(pair)));
}

}  // namespace

bool has_dot(const ExprNode& dot, const CpuLimits& limits) {
  // Instructions that sum bytes in i16 come with those that sum words in i32.
  if (dot.type.elem == DType::i16) return limits.has_dot(DType::i16, DType::i16, dot.type.lanes / 2);
  return limits.has_dot(dot.args[0].elem(), dot.args[1].elem(), dot.type.lanes);
}

Expr expand_dot(const Expr& a, const Expr& b, Expr acc) {
  if (acc.elem() == DType::i16) return expand_pairs(a, b, acc);
  const int64_t group = a.lanes() / acc.lanes();
  for (int64_t i = 0; i < group; ++i) acc = fma(element(a, i), element(b, i), acc);
  return acc;
}

}  // namespace kilter::loop_passes
