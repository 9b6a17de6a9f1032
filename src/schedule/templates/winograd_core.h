// Winograd's minimal filtering F(m, r) as Toom-Cook interpolation (Lavin and Gray, 2015): the transforms of one
// dimension, as data and as loop IR. Two-dimensional transforms nest one of these in the other.
//
// A tile of m + r - 1 inputs d gives m outputs  A' [ (G g) . (B' d) ].  Points are 0, pairs +-p, and infinity. With
// q(x) the product of x^2 - p^2 over the pairs and q_p = q / (x^2 - p^2):
//   B', row 0: coefficients of q;      row +-p: of x (x +- p) q_p;                  last row: of x q
//   G, row 0: (1, 0, .., 0) / q(0);    row +-p: (1, +-p, p^2, ..) / (2 p^2 q_p(p)); last row: (0, .., 0, 1)
//   A', row j: column 0: 1 for j = 0;  column +-p: (+-p)^j;                         last column: 1 for j = m - 1
#pragma once

#include <cstdint>
#include <vector>

#include "loop/loop.h"

namespace kilter {

struct WinogradTransform {
  int64_t outputs = 1, taps = 1;  ///< m, r
  std::vector<double> pairs;      ///< p of each pair of points, (m + r - 3) / 2 of them

  int64_t inputs() const { return outputs + taps - 1; }
  bool identity() const { return taps == 1; }
};

/// The transform for 1 tap (the identity, for any `outputs`), 3 taps (2 or 4 outputs) or 7 taps (2 outputs); null for
/// others. The points minimise the error: with 3 taps and 4 outputs, it is a fifth of the error with the points 0, +-1,
/// +-2.
const WinogradTransform* find_winograd(int64_t outputs, int64_t taps);

/// Transforms two-dimensional filters.
class FilterTransform {
 public:
  FilterTransform(const WinogradTransform& down, const WinogradTransform& across);
  /// Returns G g G' of `count` filters of down.taps x across.taps values each, which start `stride` values apart. The
  /// result has down.inputs() x across.inputs() places in rows, with `count` values each. It is valid until the next
  /// call.
  const std::vector<double>& operator()(const float* filters, int64_t count = 1, int64_t stride = 0);

 private:
  std::vector<std::vector<double>> down_, across_;  ///< rows of G
  std::vector<double> taps_, half_, out_;           ///< one value of each filter side by side
};

/// The inverse of the filter transform: taps x inputs() values R in rows, so that R u is the filter whose transform G g
/// is u. Of all exact inverses, it amplifies the rounding of the transform least: to about 2^-24 of the filter's
/// largest value (7 taps: 3 * 2^-24).
std::vector<std::vector<double>> filter_recovery(const WinogradTransform& t);

/// Operations of B' d and of A' y for one vector.
int64_t input_transform_flops(const WinogradTransform& t);
int64_t output_transform_flops(const WinogradTransform& t);

/// Emits B' d of t.inputs() vectors, as named values.
std::vector<Expr> emit_input_transform(LoopBuilder& b, const WinogradTransform& t, const std::vector<Expr>& d);
/// Emits A' y of t.inputs() vectors, as t.outputs named values.
std::vector<Expr> emit_output_transform(LoopBuilder& b, const WinogradTransform& t, const std::vector<Expr>& y);

}  // namespace kilter
