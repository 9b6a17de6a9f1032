// Transposition of a tile of memory in registers: rows of vectors are loaded, and the vectors that come out hold a
// column each. What changes which dimension is contiguous is made of it.
#pragma once

#include <vector>

#include "loop/loop.h"

namespace kilter {

/// Whether tiles of `lanes` x `lanes` elements of this type are transposed in registers: elements of 4 bytes and 4, 8
/// or 16 lanes (more: any power of two).
bool has_transpose_tile(DType type, int32_t lanes);

struct RowsAt {
  Buf buffer;
  Expr at;             ///< of the first element of the first row
  int64_t stride = 0;  ///< from row to row; elements of a row are contiguous
};

/// `columns` vectors, column c of the `rows` rows each: lane r is row r's element c, 0 for r >= rows. Both 1 to
/// `lanes`; nothing beyond them is read.
std::vector<Expr> load_columns(LoopBuilder& b, const RowsAt& from, int64_t rows, int64_t columns, int32_t lanes);

}  // namespace kilter
