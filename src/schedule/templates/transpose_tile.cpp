// Each step is one instruction on vector units that work on 128-bit parts: first 4 x 4 elements are transposed within
// the parts, then the parts themselves.
//
//   rows      a0 a1 a2 a3 | a4 ...     interleaved with the next row:       a0 b0 a1 b1 | ...    a2 b2 a3 b3 | ...
//             b0 b1 b2 b3 | b4 ...     halves of parts joined, columns:     a0 b0 c0 d0 | a4 b4 c4 d4 | ...

#include "schedule/templates/transpose_tile.h"

#include <bit>

namespace kilter {
namespace {

constexpr int32_t kPart = 4;  ///< elements of 128 bits

class Transposition {
 public:
  Transposition(LoopBuilder& b, int32_t lanes) : b_(b), lanes_(lanes) {}

  std::vector<Expr> columns(const std::vector<Expr>& rows) {
    std::vector<std::vector<Expr>> within(kPart);  // [column of a part][group of four rows]
    for (size_t r = 0; r < rows.size(); r += kPart) {
      const Expr low = interleave(rows[r], rows[r + 1], 0), low2 = interleave(rows[r + 2], rows[r + 3], 0);
      const Expr high = interleave(rows[r], rows[r + 1], 2), high2 = interleave(rows[r + 2], rows[r + 3], 2);
      within[0].push_back(join(low, low2, 0));
      within[1].push_back(join(low, low2, 2));
      within[2].push_back(join(high, high2, 0));
      within[3].push_back(join(high, high2, 2));
    }
    std::vector<Expr> all(rows.size());
    for (size_t column = 0; column < kPart; ++column) {
      const std::vector<Expr> parts = transpose_parts(within[column]);
      for (size_t part = 0; part < parts.size(); ++part) all[part * kPart + column] = parts[part];
    }
    return all;
  }

 private:
  /// From each part, elements `first` and `first` + 1 of `a` and `b`, alternating.
  Expr interleave(const Expr& a, const Expr& b, int32_t first) {
    return within_parts(a, b, {first, lanes_ + first, first + 1, lanes_ + first + 1});
  }
  /// From each part, elements `first` and `first` + 1 of `a`, then those of `b`.
  Expr join(const Expr& a, const Expr& b, int32_t first) {
    return within_parts(a, b, {first, first + 1, lanes_ + first, lanes_ + first + 1});
  }
  Expr within_parts(const Expr& a, const Expr& b, const std::vector<int32_t>& picks) {
    std::vector<int32_t> all;
    for (int32_t part = 0; part < lanes_; part += kPart) {
      for (const int32_t pick : picks) all.push_back(part + pick);
    }
    return b_.let("t", shuffle(a, b, std::move(all)));
  }
  /// Every second part of `a` from part `first` on, then of `b`.
  Expr every_second(const Expr& a, const Expr& b, int32_t first) {
    std::vector<int32_t> picks;
    for (int32_t part = first * kPart; part < 2 * lanes_; part += 2 * kPart) {
      for (int32_t k = 0; k < kPart; ++k) picks.push_back(part + k);
    }
    return b_.let("t", shuffle(a, b, std::move(picks)));
  }
  /// Vector p of the result contains part p of every vector.
  std::vector<Expr> transpose_parts(const std::vector<Expr>& vectors) {
    if (vectors.size() == 1) return vectors;
    std::vector<Expr> even, odd;
    for (size_t i = 0; i < vectors.size(); i += 2) {
      even.push_back(every_second(vectors[i], vectors[i + 1], 0));
      odd.push_back(every_second(vectors[i], vectors[i + 1], 1));
    }
    const std::vector<Expr> evens = transpose_parts(even), odds = transpose_parts(odd);
    std::vector<Expr> all;
    for (size_t i = 0; i < evens.size(); ++i) {
      all.push_back(evens[i]);
      all.push_back(odds[i]);
    }
    return all;
  }

  LoopBuilder& b_;
  int32_t lanes_;
};

}  // namespace

bool has_transpose_tile(DType type, int32_t lanes) {
  return size_bytes(type) == 4 && lanes >= kPart && std::has_single_bit(static_cast<uint32_t>(lanes));
}

std::vector<Expr> transposed(LoopBuilder& b, const std::vector<Expr>& rows) {
  return Transposition(b, rows.front().lanes()).columns(rows);
}

std::vector<Expr> load_columns(LoopBuilder& b, const RowsAt& from, int64_t rows, int64_t columns, int32_t lanes) {
  const DType type = b.value_type(from.buffer);
  const Expr mask = columns < lanes ? first_lanes(Expr(columns), lanes) : Expr();
  const Expr zero = imm(type, 0, lanes);
  std::vector<Expr> vectors;
  for (int64_t r = 0; r < lanes; ++r) {
    const Expr at = from.at + Expr(r * from.stride);
    vectors.push_back(r < rows ? b.let("r", b.load(from.buffer, at, lanes, 1, mask)) : zero);
  }
  std::vector<Expr> result = transposed(b, vectors);
  result.resize(static_cast<size_t>(columns));
  return result;
}

}  // namespace kilter
