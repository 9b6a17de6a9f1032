#include "schedule/templates/conv_taps.h"

#include <algorithm>

namespace kilter {
namespace {

/// The share of the taps along a dimension of `out` output positions that tiles of `tile` positions compute.
double read_share(const TapDim& d, int64_t out, int64_t tile) {
  int64_t read = 0;
  for (int64_t at = 0; at < out; at += tile) {
    const int64_t count = std::min(tile, out - at);
    const TapRange<int64_t> taps = taps_read(d, at, count);
    read += count * std::max<int64_t>(taps.last - taps.first, 0);
  }
  return static_cast<double>(read) / static_cast<double>(out * d.kernel);
}

}  // namespace

void skip_padding(ConvNest& nest, int64_t in_h, int64_t in_w) {
  constexpr double kMostRead = 0.75;
  if (nest.in_block == 1 || nest.taps() == 1 || (nest.dilation_h == 1 && nest.dilation_w == 1)) return;
  nest.in_h = in_h, nest.in_w = in_w;
  if (read_share(nest, {1, 1, 1}) > kMostRead) nest.in_h = nest.in_w = 0;
}

double read_share(const ConvNest& nest, const ConvTile& tile) {
  if (nest.in_h == 0) return 1;
  return read_share(tap_rows(nest), nest.out_h, tile.rows) * read_share(tap_columns(nest), nest.out_w, tile.tile);
}

}  // namespace kilter
