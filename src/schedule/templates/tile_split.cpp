#include "schedule/templates/tile_split.h"

#include <algorithm>

#include "base/align.h"

namespace kilter {

TileSplit::TileSplit(int64_t extent, int64_t tile, bool overlap)
    : extent_(extent), tile_(tile), overlap_(overlap && extent >= tile) {
  whole_ = overlap_ ? ceil_div(extent, tile) : extent / tile;
  rest_ = overlap_ ? 0 : extent % tile;
}

Expr TileSplit::begin(LoopBuilder& b, const Expr& tile) const {
  const Expr usual = tile * Expr(tile_);
  return overlap_ ? b.let("begin", min(usual, Expr(extent_ - tile_))) : usual;
}

int64_t TileSplit::items(int64_t each) const {
  if (!overlap_) return ceil_div(count(), each);
  return std::max<int64_t>((each > 1 ? whole_ : extent_ / tile_) / each, 1);
}

Expr TileSplit::end_of_item(const Expr& item, int64_t each) const {
  const Expr usual = item * Expr(each) + Expr(each);
  if (!overlap_) return min(usual, Expr(whole_));
  return select(binary(Op::eq, item, Expr(items(each) - 1)), Expr(whole_), usual);
}

}  // namespace kilter
