// Transposition of a memory tile in registers: loads rows as vectors and returns columns as vectors. Used by copies
// that change which dimension is contiguous.
#pragma once

#include <vector>

#include "loop/loop.h"

namespace kilter {

/// Whether tiles of `lanes` x `lanes` elements of this type can be transposed in registers: elements of 4 bytes, and 4
/// or more lanes (a power of two).
bool has_transpose_tile(DType type, int32_t lanes);

/// Returns the columns of `rows`, which are as many vectors as they have lanes. Their elements must satisfy
/// has_transpose_tile().
std::vector<Expr> transposed(LoopBuilder& b, const std::vector<Expr>& rows);

struct RowsAt {
  Buf buffer;
  Expr at;             ///< index of the first element of the first row
  int64_t stride = 0;  ///< from row to row; elements of a row are contiguous
};

/// Returns `columns` vectors. Vector c contains column c of the `rows` rows: lane r is element c of row r, and 0 for r
/// >= rows. `rows` and `columns` must be 1 to `lanes`; nothing beyond them is read.
std::vector<Expr> load_columns(LoopBuilder& b, const RowsAt& from, int64_t rows, int64_t columns, int32_t lanes);

}  // namespace kilter
