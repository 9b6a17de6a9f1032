// Winograd's minimal filtering F(m x m, 3 x 3) as Toom-Cook interpolation, one dimension nested in the other (Lavin and
// Gray, 2015): the transforms as data and as loop IR.
//
// A tile of (m+2) x (m+2) inputs d gives m x m outputs  A' [ (G g G') . (B' d B) ] A.  Points are 0, pairs +-p, and
// infinity. With q(x) the product of x^2 - p^2 over the pairs and q_p = q / (x^2 - p^2):
//   B', row 0: coefficients of q;  row +-p: of x (x +- p) q_p;  last row: of x q
//   G, row 0: (1, 0, 0) / q(0);    row +-p: (1, +-p, p^2) / (2 p^2 q_p(p));  last row: (0, 0, 1)
//   A', row j: column 0: 1 for j = 0;  column +-p: (+-p)^j;  last column: 1 for j = m - 1
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "loop/loop.h"

namespace kilter {

struct WinogradTransform {
  int64_t outputs = 4;        ///< m
  std::vector<double> pairs;  ///< p of each pair of points, m / 2 of them

  int64_t inputs() const { return outputs + 2; }
};

/// m = 2 with points 0, +-1; m = 4 with 0, +-5/8, +-3/2, whose error is a fifth of that of 0, +-1, +-2.
const WinogradTransform& winograd_transform(int64_t outputs);

/// Rows of G, (m+2) x 3.
std::vector<std::array<double, 3>> filter_rows(const WinogradTransform& t);
/// G g G' of one 3 x 3 filter, (m+2) x (m+2) values in rows, at most 36.
std::array<double, 36> transformed_filter(const std::vector<std::array<double, 3>>& rows, const float* filter);

/// Operations of the transforms of one tile of one channel, both dimensions.
int64_t input_transform_flops(const WinogradTransform& t);
int64_t output_transform_flops(const WinogradTransform& t);

/// B' d of m + 2 vectors, as named values.
std::vector<Expr> emit_input_transform(LoopBuilder& b, const WinogradTransform& t, const std::vector<Expr>& d);
/// A' y of m + 2 vectors, as m named values.
std::vector<Expr> emit_output_transform(LoopBuilder& b, const WinogradTransform& t, const std::vector<Expr>& y);

}  // namespace kilter
