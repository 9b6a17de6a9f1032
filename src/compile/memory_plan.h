// Offsets of buffers in one arena from their lifetimes.
#pragma once

#include <cstdint>
#include <vector>

namespace kilter {

struct Lifetime {
  int64_t bytes = 0;
  int64_t first = 0, last = 0;  ///< steps, both inclusive
};

struct ArenaPlan {
  std::vector<int64_t> offsets;  ///< by buffer; 64-byte aligned
  int64_t bytes = 0;             ///< of the arena
};

/// Buffers whose lifetimes overlap do not overlap in memory. Greedy, largest first, lowest offset that fits; where many
/// thousand buffers live at once, in the order of time, which needs more memory at times but no time in their square.
ArenaPlan plan_arena(const std::vector<Lifetime>& buffers);

}  // namespace kilter
