#include "compile/memory_plan.h"

#include <algorithm>
#include <numeric>

#include "base/align.h"

namespace kilter {

ArenaPlan plan_arena(const std::vector<Lifetime>& buffers) {
  constexpr int64_t kAlign = 64;
  const auto rounded = [](int64_t bytes) { return round_up(bytes, kAlign); };
  std::vector<size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return buffers[a].bytes > buffers[b].bytes; });
  ArenaPlan plan;
  plan.offsets.assign(buffers.size(), 0);
  std::vector<size_t> placed;  // by offset
  for (size_t i : order) {
    const Lifetime& b = buffers[i];
    int64_t at = 0;
    for (size_t j : placed) {
      const Lifetime& other = buffers[j];
      if (other.last < b.first || b.last < other.first) continue;
      if (at + rounded(b.bytes) <= plan.offsets[j]) break;
      at = std::max(at, plan.offsets[j] + rounded(other.bytes));
    }
    plan.offsets[i] = at;
    plan.bytes = std::max(plan.bytes, at + rounded(b.bytes));
    const auto where = std::upper_bound(placed.begin(), placed.end(), at,
                                        [&](int64_t offset, size_t j) { return offset < plan.offsets[j]; });
    placed.insert(where, i);
  }
  return plan;
}

}  // namespace kilter
