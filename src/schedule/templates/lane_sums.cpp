// Each step halves the number of partial results of every vector. While there are at least two registers, one operand
// of a step is the lower halves of two of them, and the other is the upper halves, so that no lane is wasted:
//
//   a0 a1 a2 a3   b0 b1 b2 b3     a0 a1 b0 b1 + a2 a3 b2 b3     then, in one register:  a0 b0 + a1 b1

#include "schedule/templates/lane_sums.h"

#include <bit>

namespace kilter {
namespace {

/// One half, the lower (`half` 0) or upper one (1), of each run of `run` lanes of two vectors; of the first alone if
/// `b` is undefined.
Expr halves(const Expr& a, const Expr& b, int32_t run, int32_t half) {
  std::vector<int32_t> picks;
  const int32_t lanes = (b.defined() ? 2 : 1) * a.lanes();
  for (int32_t first = half * run / 2; first < lanes; first += run) {
    for (int32_t k = 0; k < run / 2; ++k) picks.push_back(first + k);
  }
  return shuffle(a, b.defined() ? b : a, std::move(picks));
}

}  // namespace

Expr reduce_lanes(LoopBuilder& b, Op op, std::vector<Expr> vectors) {
  if (vectors.size() == 1) return lane_reduce(op, vectors[0]);
  vectors.resize(std::bit_ceil(vectors.size()), vectors.back());
  for (int32_t run = vectors[0].lanes(); run > 1; run /= 2) {
    std::vector<Expr> next;
    for (size_t i = 0; i < vectors.size(); i += 2) {
      const Expr first = b.let("p", vectors[i]);
      const Expr second = i + 1 < vectors.size() ? b.let("p", vectors[i + 1]) : Expr();
      next.push_back(binary(op, halves(first, second, run, 0), halves(first, second, run, 1)));
    }
    vectors = std::move(next);
  }
  return vectors[0];
}

}  // namespace kilter
