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

}  // namespace

Expr expand_dot(const Expr& a, const Expr& b, Expr acc) {
  const int64_t group = a.lanes() / acc.lanes();
  for (int64_t i = 0; i < group; ++i) acc = fma(element(a, i), element(b, i), acc);
  return acc;
}

}  // namespace kilter::loop_passes
