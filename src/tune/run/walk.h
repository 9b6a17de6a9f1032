// Iterates over all elements of a value in two layouts at once, in contiguous runs.
#pragma once

#include <cstdint>
#include <vector>

#include "tune/run/value.h"

namespace kilter::tune {

/// One loop nest over elements. A value whose channels do not fill its blocks needs several.
struct ElementWalk {
  struct Loop {
    int64_t count = 0;
    int64_t step_a = 0, step_b = 0;  ///< elements
  };
  int64_t first_a = 0, first_b = 0;  ///< elements from the start of the buffers
  std::vector<Loop> loops;           ///< innermost last, at least one
};

std::vector<ElementWalk> walks(const ValueLayout& a, const ValueLayout& b);

/// Calls run(a, b, count, step_a, step_b) for every innermost loop; a and b are element offsets from the buffers'
/// starts.
template <class Run>
void follow(const ElementWalk& walk, Run run) {
  const size_t outer = walk.loops.size() - 1;
  const ElementWalk::Loop& inner = walk.loops.back();
  std::vector<int64_t> index(outer, 0);
  int64_t a = walk.first_a, b = walk.first_b;
  for (;;) {
    run(a, b, inner.count, inner.step_a, inner.step_b);
    size_t d = outer;
    for (; d > 0; --d) {
      const ElementWalk::Loop& loop = walk.loops[d - 1];
      a += loop.step_a, b += loop.step_b;
      if (++index[d - 1] < loop.count) break;
      a -= loop.count * loop.step_a, b -= loop.count * loop.step_b;
      index[d - 1] = 0;
    }
    if (d == 0) return;
  }
}

}  // namespace kilter::tune
