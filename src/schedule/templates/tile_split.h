// The split of a row of pixels, or of the rows of a matrix, into register tiles.
#pragma once

#include <cstdint>

#include "loop/loop.h"

namespace kilter {

class TileSplit {
 public:
  /// `overlap`: the last tile is a whole one that overlaps the previous tile (Task::open), unless the extent is smaller
  /// than a tile. Elements in two tiles are computed twice, with the same result.
  TileSplit(int64_t extent, int64_t tile, bool overlap);

  int64_t whole() const { return whole_; }
  /// The elements of the partial tile after the whole ones; 0: there is none.
  int64_t rest() const { return rest_; }
  int64_t count() const { return whole_ + (rest_ > 0 ? 1 : 0); }
  /// The first element of a whole tile.
  Expr begin(LoopBuilder& b, const Expr& tile) const;

  /// The number of parallel items of `each` tiles. If tiles overlap, the last item has up to twice as many, so that the
  /// overlapping tiles belong to one item and no two items store the same element.
  int64_t items(int64_t each) const;
  /// The whole tile after the last one of an item.
  Expr end_of_item(const Expr& item, int64_t each) const;

 private:
  int64_t extent_, tile_;
  bool overlap_;
  int64_t whole_, rest_;
};

}  // namespace kilter
