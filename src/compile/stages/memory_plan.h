// Assigns buffers their offsets in one arena, from their live ranges.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kilter {

struct Lifetime {
  int64_t bytes = 0;
  int64_t first = 0, last = 0;  ///< steps, both inclusive
};

/// The name of buffers that only the kernels of one layer use.
inline std::string temporary_of(const std::string& layer) { return layer + " (temporary)"; }

struct ArenaPlan {
  std::vector<int64_t> offsets;  ///< by buffer; 64-byte aligned
  int64_t bytes = 0;             ///< of the arena
};

/// Buffers with overlapping live ranges do not overlap in memory. Places buffers from the largest to the smallest, each
/// at the lowest offset that fits. If many thousands of buffers are live at the same time, places them in order of time
/// instead: this can need more memory, but avoids quadratic time.
ArenaPlan plan_arena(const std::vector<Lifetime>& buffers);

}  // namespace kilter
