// Templates whose cost model only counts the instructions of loops.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

namespace kilter {

/// Whether LoopModel ranks the schedules of a template that has knobs. Its default may exceed the cheapest candidate by
/// up to kCountError.
inline bool counts_loops(std::string_view name) {
  constexpr std::array<std::string_view, 6> kCounted{"pool_rows",      "reduce_rows", "softmax_rows",
                                                     "normalize_rows", "tree_rows",   "map"};
  return std::ranges::find(kCounted, name) != kCounted.end();
}

}  // namespace kilter
