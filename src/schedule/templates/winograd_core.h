// Winograd's minimal filtering (packing/winograd_filters.h): the transforms of inputs and outputs in one dimension
// as loop IR. Two-dimensional transforms nest one of these in the other. With the points, q and q_p of the filters:
//   B', row 0: coefficients of q;      row +-p: of x (x +- p) q_p;                  last row: of x q
//   A', row j: column 0: 1 for j = 0;  column +-p: (+-p)^j;                         last column: 1 for j = m - 1
#pragma once

#include <cstdint>
#include <vector>

#include "loop/loop.h"
#include "packing/winograd_filters.h"

namespace kilter {

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
