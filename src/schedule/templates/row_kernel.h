// Kernels that pass over each row of the anchor's input several times and write a row of the same length. A group of
// rows is processed together: their chains of operations are independent, and they share the reductions over lanes and
// the data that are read for each element of a row.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "schedule/emit.h"

namespace kilter {

/// The rows of the anchor's input: its dimensions from `first_dim` on, which have `extent` elements in total.
struct RowShape {
  size_t first_dim = 0;
  int64_t extent = 1;
  int64_t rows = 1;        ///< of the whole input
  int64_t neighbours = 1;  ///< rows along the innermost dimension outside of the row; groups divide this dimension
};
RowShape row_shape(const Shape& shape, size_t first_dim);

/// Checks that rows are contiguous in every operand of the input's shape. `spanning`: rows may span several dimensions;
/// the epilogue must then not read operands of other shapes.
std::optional<Rejected> check_rows(const Task& task, const RowShape& rows, bool spanning);

/// The knobs `rows` and `unroll` of templates for rows.
std::vector<Knob> row_knobs(const RowShape& rows, const CpuLimits& limits);
/// The schedule of the template `name` that is usually best: groups of at most `elems` elements, and enough
/// accumulators to hide the latency of an addition. Leaves enough groups for several threads.
Schedule usual_rows(const std::string& name, const RowShape& rows, const CpuLimits& limits, int64_t elems);

/// The rows that one iteration processes together.
class RowGroup {
 public:
  struct Size {
    int64_t rows = 1;
    int64_t unroll = 1;  ///< accumulators per row
    int32_t lanes = 1;
  };
  /// `along`: the dimension of the input along which the rows follow each other. `site`: the first row.
  RowGroup(Emitter& e, const RowShape& shape, const Size& size, const Site& site, std::optional<size_t> along);

  /// A vector of one of the rows. The functions below call their terms for each position in turn, for all rows of the
  /// group in ascending order.
  struct Place {
    int64_t row = 0;  ///< in the group
    Expr at;          ///< the position in the row
    Expr mask;        ///< the lanes that exist; undefined: all
  };
  using Term = std::function<Expr(const Place&)>;
  using Join = std::function<Expr(const Expr& sum, const Expr& term)>;

  int64_t rows() const { return size_.rows; }
  /// The index of a row of the group along dimension `d` of the input; 0 for the dimensions of the row.
  Expr index(int64_t row, size_t d) const;
  /// A vector of the input.
  Expr load(const Place& p) const;
  /// Prefetches the vector of the next group's rows that corresponds to a place of this one. Must be called in the
  /// second pass, which reads from L1.
  void prefetch_next(const Place& p);
  /// Reduces the terms of each row by `op`, whose identity is `start`. The result has one element for each row. `join`
  /// adds a term to a sum; the default is `op`.
  Expr reduce(Op op, double start, const std::string& name, const Term& term, const Join& join = {});
  /// For each row, its element of a result of reduce() in every lane.
  std::vector<Expr> in_all_lanes(const Expr& results);
  /// Passes the terms of the rows to the epilogue as the anchor's result.
  void write(const Term& term);

 private:
  void each(const std::function<void(const Place&, int64_t which)>& body);

  Emitter& e_;
  LoopBuilder& b_;
  const RowShape& shape_;
  Size size_;
  const Operand& x_;
  Domain domain_;
  Site site_;
  std::optional<size_t> along_;
  Buf from_;
  std::vector<Expr> bases_;  ///< by row: the index of its first element in the input
};

/// Declares parallel dimensions over groups of rows according to the schedule's knobs, and calls `body` for a whole
/// group, and again for the remaining rows.
void emit_row_groups(Emitter& e, const RowShape& shape, const Schedule& schedule, int32_t lanes,
                     const std::function<void(RowGroup&)>& body);

}  // namespace kilter
