// Kernels that pass over each row of the anchor's input several times and write a row of the same length.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "schedule/emit.h"

namespace kilter {

/// The rows of the anchor's input: its dimensions from `first_dim` on, which have `extent` elements in total.
struct RowShape {
  size_t first_dim = 0;
  int64_t extent = 1;
};
RowShape row_shape(const Shape& shape, size_t first_dim);

/// Checks that rows are contiguous in every operand of the input's shape. `spanning`: rows may span several dimensions;
/// the epilogue must then not read operands of other shapes.
std::optional<Rejected> check_rows(const Task& task, const RowShape& rows, bool spanning);

/// Emits one row per iteration of the parallel dimensions, which it declares.
class RowKernel {
 public:
  RowKernel(Emitter& e, const RowShape& rows, int64_t unroll, int32_t lanes);

  /// A vector of the input's row.
  Expr load(const Expr& at, const Expr& mask) const { return e_.b.load(from_, base_ + at, lanes_, 1, mask); }
  /// The index along dimension `d` of the input; 0 for the dimensions of the row.
  const Expr& index(size_t d) const { return site_.index[d]; }

  /// Computes the value for one vector of a row, given its position and the mask of the lanes that exist (undefined:
  /// all).
  using Term = std::function<Expr(const Expr& at, const Expr& mask)>;
  /// Reduces the terms of a row to one scalar, named `name`, by `op`, whose identity is `start`. `unroll` registers
  /// named `partial` hold partial results.
  Expr reduce(Op op, double start, const std::string& partial, const std::string& name, const Term& term);
  /// Passes the terms of a row to the epilogue as the anchor's result.
  void write(const Term& term);

 private:
  Emitter& e_;
  const RowShape& rows_;
  int64_t unroll_;
  int32_t lanes_;
  const Operand& x_;
  Domain domain_;
  Site site_;
  Buf from_;
  Expr base_;
};

}  // namespace kilter
