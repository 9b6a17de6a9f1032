// Matrix products C[.., m, n] = A[.., m, k] B[.., k, n] as templates see them, and B in panels of columns, [n /
// width][k / group][width][group]: packed at compile time if it is constant, otherwise by a first stage. A group is one
// f32 or f16, two of bf16 or four bytes (Multiplicands). A and B may have any strides (transposes are views).
#pragma once

#include <cstdint>
#include <optional>

#include "base/align.h"
#include "schedule/emit.h"
#include "schedule/model/register_tile.h"

namespace kilter {

struct MatrixProduct {
  Shape batch;  ///< broadcast batch dimensions
  int64_t m = 0, n = 0, k = 0;
  Shape a_batch, b_batch;  ///< strides along the batch dimensions, 0 where broadcast
  int64_t a_m = 0, a_k = 0, b_k = 0, b_n = 0;
  /// The dimension of the result that contains the rows. If its matrices have one row each, the rows are the innermost
  /// batch dimension along which B stays the same; `batch` is 1 there.
  size_t row_axis = 0;
  Shape b_extent;  ///< extents of B's own batch dimensions, aligned with `batch` (1 where broadcast)
  bool constant_b = false;
  bool overlap = false;  ///< the last tile of rows overlaps the one before it (Task::open)
  Multiplicands operands;
  bool widens_a = false;  ///< vectors of A are converted to f32 before they are broadcast

  /// Steps of the reduction; also the number of groups of a panel for each column.
  int64_t steps() const { return ceil_div(k, operands.group); }
  int64_t padded_k() const { return steps() * operands.group; }
};

/// Analyses a task whose anchor is a matrix product.
Result<MatrixProduct> product_of(const Task& task, const CpuLimits& limits);
/// Like product_of(), for tile registers in place of vectors.
Result<MatrixProduct> tile_product_of(const Task& task, const CpuLimits& limits);

struct Panels {
  int64_t width, per_matrix, elems, matrices;
  int64_t depth;  ///< rows of B, and zeros after the last
};
/// Panels of `vectors` vectors, in which `depth` is a multiple of `unit`.
Panels panels_of(const MatrixProduct& p, int64_t vectors, int32_t lanes, int64_t unit);

/// The panels of a constant B.
Packing pack_constant(const Task& task, const MatrixProduct& p, const Panels& panels);
/// The start of the sums of each column, which corrects them for the stored zero of A: none if that is 0.
std::optional<Packing> column_starts(const Task& task, const MatrixProduct& p, const Panels& panels);
/// The stage that packs a B computed at run time.
Stage pack_stage(const Task& task, const MatrixProduct& p, const Panels& panels, int32_t lanes, Lowered& lowered);

/// Opens a product's parallel dimensions over its batch: their variables, and the positions that follow from them.
struct BatchLoops {
  BatchLoops(LoopBuilder& b, const Task& task, const MatrixProduct& p);
  /// The index of an element of the result.
  std::vector<Expr> at(const Expr& row, const Expr& column) const;
  std::vector<Expr> index;
  size_t row_axis;
  Expr a_base;      ///< the first element of A's matrix
  Expr matrix = 0;  ///< the number of B's matrix
};

}  // namespace kilter
