// Products with tile registers (AMX), for matrix products and convolutions. A kernel reads rows of the first factor in
// place, or copies them in units of as many elements as a row of a tile register holds: [unit][row][element]. The
// second factor is packed in panels of 16 columns, [panel][step][row of a tile register][column][element of a group],
// so that each of its tile registers is 1 KiB without gaps. Sums go through scratch to the epilogue.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/align.h"
#include "schedule/emit.h"
#include "schedule/model/register_tile.h"
#include "schedule/templates/weight_stream.h"

namespace kilter {

/// Tile registers that are in use at the same time: `tiles` of the first factor with `rows` rows each, one for each of
/// `vectors` panels, and one for the sums of each pair.
struct AmxTile {
  int64_t vectors = 2, tiles = 2, rows = kTileRows;
  /// Whether a set of rows is multiplied with all panels before the next set is; the rows then stay in L1, and the
  /// panels in L2. Otherwise, a set of panels is multiplied with all rows.
  bool rows_outside = false;
};
/// The combinations of vectors and tiles for which there are enough registers, best first.
std::span<const AmxTile> amx_tiles();
std::optional<Rejected> check_amx_tile(const AmxTile& tile);

/// Whether the target has tile registers for the operands.
bool amx_multiplies(const Multiplicands& operands, const CpuLimits& limits);
/// The operands that tile registers multiply in a convolution with constant weights. Rejects tasks that no template
/// with tile registers can compute.
Result<Multiplicands> amx_conv_operands(const Task& task, const CpuLimits& limits);
/// Zeros of the type of the first factor.
inline Expr amx_zeros(const Multiplicands& operands, int32_t lanes) {
  return is_float(operands.type) ? imm(operands.type, 0, lanes) : imm_int(operands.type, 0, lanes);
}
/// Elements of the reduction in a row of a tile register.
inline int64_t amx_unit(const Multiplicands& operands) { return kTileRowBytes / operands.bytes(); }

/// Products of one set of rows of the first factor with all panels.
struct AmxProduct {
  Multiplicands operands;
  int64_t rows = 0;    ///< of the first factor, including those whose results are not used
  int64_t steps = 0;   ///< units of the reduction
  int64_t panels = 0;  ///< of 16 columns
  /// For the model: rows with results, bytes of the rows, vectors that the copy moves, the share of the lines of the
  /// first factor that a step reads for the first time, units of a row, and rows that a set reads beyond its own.
  int64_t useful_rows = 0, row_bytes = 0, copies = 0;
  double fresh = 1;
  int64_t units = 0, reach = 0;

  int64_t panel_elems() const { return steps * kTileRows * amx_unit(operands); }
  /// Rows of all tile registers of the first factor.
  int64_t padded_rows(const AmxTile& tile) const { return round_up(rows, tile.rows); }
};

/// The number of parallel items that share the panels of one set of rows. More than 1 if the `sets` sets are too few
/// for the threads that the work is worth.
int64_t amx_parts(const AmxProduct& product, const AmxTile& tile, int64_t sets, const CpuLimits& limits);
/// The prediction for `sets` sets of rows. As in the models of other contractions, epilogues do not count.
Estimate amx_estimate(const AmxProduct& product, const AmxTile& tile, int64_t sets, const CpuLimits& limits);

/// The candidate with the fewest predicted cycles; of several that differ by less than a percent, the first. Rejected
/// if the best schedule of `other`, a template for vectors, is predicted to take hardly more cycles.
Result<Schedule> pick_amx(const Task& task, const CpuLimits& limits, std::string_view other,
                          std::vector<Schedule> candidates, const std::function<double(const Schedule&)>& cycles);

/// The schedule with these tile registers, the template's other knobs `own`, and a prefetch distance.
Schedule amx_schedule(std::string_view name, const AmxTile& tile,
                      const std::vector<std::pair<std::string, int64_t>>& own, int64_t prefetch);
AmxTile amx_tile_of(const Schedule& schedule);
/// The knobs vectors, tiles, rows, rows_outside and prefetch.
std::vector<Knob> amx_knobs(int64_t panels);
/// The numbers of rows of a tile register worth trying: all, or as few as divide the rows evenly.
std::vector<int64_t> amx_row_counts(int64_t rows);
int64_t pick_amx_prefetch(const AmxProduct& product, const AmxTile& tile, const CpuLimits& limits);

/// Emits the products of one parallel item.
class AmxEmitter {
 public:
  /// The first factor: a buffer in which rows are `step` elements apart.
  struct Rows {
    Buf buffer;
    int64_t step = 0;
  };
  /// `weights`: the panels. `prefetch`: value of the knob.
  AmxEmitter(Emitter& e, const AmxProduct& product, const AmxTile& tile, Rows rows, Buf weights, int64_t prefetch,
             const CpuLimits& limits);

  /// A step of the reduction: the place that the first row reads, and the number of the step.
  using Step = std::function<void(const Expr& place, const Expr& step)>;
  /// Complete sums: those of `rows` rows from `row` on with `count` panels from `first` on.
  struct Block {
    Expr first;
    int64_t count = 0;
    Expr row, rows;
  };
  /// Emits the epilogue of rows `begin` to `end` of a block, counted from its first row.
  using Finish = std::function<void(const Block& block, const Expr& begin, const Expr& end)>;

  /// Emits the panels of part `part` of `parts`. `first_weight`: the first element of the panels. `reduce` emits the
  /// loops of the reduction around a call of its argument. Each step of a block is followed by a piece of the epilogue
  /// of the block before it, which runs while the tile registers multiply.
  void emit(const Expr& part, int64_t parts, const Expr& first_weight, const std::function<void(const Step&)>& reduce,
            const Finish& finish);

  /// Vectors that the epilogues of all rows of a panel read.
  struct Shared {
    Expr start;          ///< added to the sums; may be undefined
    Emitter::Held held;  ///< operands
  };
  /// For epilogue(): loads what the rows of `count` panels share. `starts`: the vectors added to the sums, from vector
  /// `first` on; if the buffer is undefined, nothing is added. `site`: any site of a panel; its other indices do not
  /// matter.
  std::vector<Shared> shared(const Buf& starts, const Expr& first, int64_t count,
                             const std::function<Site(int64_t panel)>& site);
  /// In `finish`, the epilogue of row `row` of the block for one of its panels.
  void epilogue(const Expr& row, int64_t panel, const std::vector<Shared>& shared, const Site& site);

 private:
  /// Rows whose sums fit in the tile registers.
  struct Set {
    Expr first, number;
    int64_t tiles = 0;
  };
  /// Groups of `count` panels from panel `first` on: those from `begin` to `end`.
  struct Columns {
    int64_t first = 0, count = 0;
    Expr begin, end;

    Expr panel(const Expr& group) const { return Expr(first) + group * Expr(count); }
  };
  /// The work of a kernel apart from the products.
  struct Beside {
    const Expr& first_weight;
    const std::function<void(const Step&)>& reduce;
    const Finish& finish;
  };
  int64_t set_rows() const { return tile_.tiles * tile_.rows; }
  int64_t all_tiles() const { return p_.padded_rows(tile_) / tile_.rows; }
  void panels_outside(const Columns& columns, const Beside& beside);
  void rows_outside(const Columns& columns, const Beside& beside);
  void multiply(const Set& set, const Expr& panel, const Block& before, const Beside& beside);
  void finish(const Beside& beside, const Block& block, const Expr& begin, const Expr& end);
  Tile register_of(int64_t t, int64_t v) const { return registers_[static_cast<size_t>(t * tile_.vectors + v)]; }
  Tile factor(int64_t i) const { return registers_[static_cast<size_t>(tile_.tiles * tile_.vectors + i)]; }

  Emitter& e_;
  LoopBuilder& b_;
  ValueId anchor_;
  Domain domain_;
  const AmxProduct& p_;
  const AmxTile& tile_;
  int32_t lanes_;
  Rows rows_;
  Buf sums_;
  WeightStream stream_;
  std::span<const Tile> registers_;
};

}  // namespace kilter
