#include "compile/stages/memory_plan.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "base/align.h"

namespace kilter {
namespace {

int64_t rounded(int64_t bytes) {
  constexpr int64_t kAlign = 64;
  return round_up(bytes, kAlign);
}

/// Buffers by the steps during which they live: a segment tree over the steps. Each node lists the buffers that live in
/// all of its steps but not in all of its parent's.
class ByTime {
 public:
  explicit ByTime(int64_t steps) {
    while (leaves_ < steps) leaves_ *= 2;
    covers_.resize(2 * static_cast<size_t>(leaves_));
    below_.resize(covers_.size());
  }

  void add(size_t buffer, const Lifetime& life) { add(1, 0, leaves_, buffer, life); }

  /// Appends the buffers that live at the same time as `life`; some may appear twice.
  void find(const Lifetime& life, std::vector<size_t>& found) const { find(1, 0, leaves_, life, found); }

 private:
  void add(size_t node, int64_t begin, int64_t end, size_t buffer, const Lifetime& life) {
    if (life.last < begin || end <= life.first) return;
    if (life.first <= begin && end <= life.last + 1) {
      covers_[node].push_back(buffer);
      return;
    }
    below_[node].push_back(buffer);
    const int64_t middle = (begin + end) / 2;
    add(2 * node, begin, middle, buffer, life);
    add(2 * node + 1, middle, end, buffer, life);
  }

  void find(size_t node, int64_t begin, int64_t end, const Lifetime& life, std::vector<size_t>& found) const {
    if (life.last < begin || end <= life.first) return;
    found.insert(found.end(), covers_[node].begin(), covers_[node].end());
    if (life.first <= begin && end <= life.last + 1) {
      found.insert(found.end(), below_[node].begin(), below_[node].end());
      return;
    }
    const int64_t middle = (begin + end) / 2;
    find(2 * node, begin, middle, life, found);
    find(2 * node + 1, middle, end, life, found);
  }

  int64_t leaves_ = 1;
  std::vector<std::vector<size_t>> covers_;  ///< by node: buffers that live in all of its steps
  std::vector<std::vector<size_t>> below_;   ///< by node: buffers that live in some of its steps, but not all
};

/// Places buffers from the largest to the smallest, each at the lowest offset that fits.
ArenaPlan by_size(const std::vector<Lifetime>& buffers, int64_t steps) {
  std::vector<size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return buffers[a].bytes > buffers[b].bytes; });
  ArenaPlan plan;
  plan.offsets.assign(buffers.size(), 0);
  ByTime placed(steps);
  std::vector<size_t> beside, seen(buffers.size(), buffers.size());
  std::vector<std::pair<int64_t, int64_t>> taken;  // begin and end of the buffers that live at the same time
  for (size_t i : order) {
    const Lifetime& b = buffers[i];
    beside.clear(), taken.clear();
    placed.find(b, beside);
    for (size_t j : beside) {
      if (std::exchange(seen[j], i) != i)
        taken.emplace_back(plan.offsets[j], plan.offsets[j] + rounded(buffers[j].bytes));
    }
    std::ranges::sort(taken);
    int64_t at = 0;
    for (const auto& [begin, end] : taken) {
      if (at + rounded(b.bytes) <= begin) break;
      at = std::max(at, end);
    }
    plan.offsets[i] = at;
    plan.bytes = std::max(plan.bytes, at + rounded(b.bytes));
    placed.add(i, b);
  }
  return plan;
}

/// Places buffers in order of time, each in the smallest hole that is large enough. If there is none, the arena grows.
ArenaPlan by_time(const std::vector<Lifetime>& buffers) {
  std::vector<size_t> starts(buffers.size());
  std::iota(starts.begin(), starts.end(), 0);
  std::vector<size_t> ends = starts;
  std::ranges::stable_sort(starts, {}, [&](size_t i) { return buffers[i].first; });
  std::ranges::stable_sort(ends, {}, [&](size_t i) { return buffers[i].last; });
  ArenaPlan plan;
  plan.offsets.assign(buffers.size(), 0);
  std::map<int64_t, int64_t> holes;                // offset -> bytes
  std::set<std::pair<int64_t, int64_t>> by_bytes;  // bytes, offset
  const auto remove = [&](std::map<int64_t, int64_t>::iterator hole) {
    by_bytes.erase({hole->second, hole->first});
    holes.erase(hole);
  };
  const auto release = [&](int64_t at, int64_t bytes) {
    if (bytes == 0) return;
    auto after = holes.lower_bound(at);
    if (after != holes.end() && at + bytes == after->first) {
      bytes += after->second;
      remove(after);
    }
    after = holes.lower_bound(at);
    if (after != holes.begin() && std::prev(after)->first + std::prev(after)->second == at) {
      at = std::prev(after)->first, bytes += std::prev(after)->second;
      remove(std::prev(after));
    }
    holes.emplace(at, bytes);
    by_bytes.emplace(bytes, at);
  };
  auto ended = ends.begin();
  for (size_t i : starts) {
    for (; buffers[*ended].last < buffers[i].first; ++ended)
      release(plan.offsets[*ended], rounded(buffers[*ended].bytes));
    const int64_t bytes = rounded(buffers[i].bytes);
    const auto hole = by_bytes.lower_bound({bytes, 0});
    if (hole == by_bytes.end()) {
      plan.offsets[i] = plan.bytes;
      plan.bytes += bytes;
      continue;
    }
    const auto [size, at] = *hole;
    remove(holes.find(at));
    plan.offsets[i] = at;
    release(at + bytes, size - bytes);
  }
  return plan;
}

/// The approximate number of pairs of buffers that live at the same time.
int64_t pairs_beside(const std::vector<Lifetime>& buffers, int64_t steps) {
  std::vector<int64_t> change(static_cast<size_t>(steps) + 1), begin(change.size());
  for (const Lifetime& b : buffers) {
    ++begin[static_cast<size_t>(b.first)];
    ++change[static_cast<size_t>(b.first)], --change[static_cast<size_t>(b.last) + 1];
  }
  int64_t live = 0, pairs = 0;
  for (size_t step = 0; step < change.size(); ++step) {
    live += change[step];
    pairs += begin[step] * live;
  }
  return pairs;
}

}  // namespace

ArenaPlan plan_arena(const std::vector<Lifetime>& buffers) {
  constexpr int64_t kMostPairs = 16 << 20;  // by_size() takes a second or two for this many
  int64_t steps = 1;
  for (const Lifetime& b : buffers) steps = std::max(steps, b.last + 1);
  return pairs_beside(buffers, steps) <= kMostPairs ? by_size(buffers, steps) : by_time(buffers);
}

}  // namespace kilter
