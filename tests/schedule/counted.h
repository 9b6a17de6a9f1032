// Templates whose model only counts loops.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

namespace kilter {

/// Whether a template with knobs is ranked by LoopModel: its default may be dearer than the cheapest candidate, by as
/// much as kCountError says.
inline bool counts_loops(std::string_view name) {
  constexpr std::array<std::string_view, 5> kCounted{"pool_rows", "reduce_rows", "softmax_rows", "normalize_rows",
                                                     "map"};
  return std::ranges::find(kCounted, name) != kCounted.end();
}

}  // namespace kilter
