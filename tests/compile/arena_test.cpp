// Checks the offsets of buffers in the arena and the strides of views against their definitions, on random cases.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>

#include "compile/stages/memory_plan.h"
#include "draw.h"
#include "ops/support/views.h"

namespace kilter {
namespace {

int64_t rounded(int64_t bytes) { return (bytes + 63) / 64 * 64; }

/// The largest number of bytes that are live in one step: no arena can be smaller.
int64_t least_bytes(const std::vector<Lifetime>& buffers) {
  int64_t most = 0;
  for (const Lifetime& at : buffers) {
    int64_t sum = 0;
    for (const Lifetime& b : buffers) sum += b.first <= at.first && at.first <= b.last ? rounded(b.bytes) : 0;
    most = std::max(most, sum);
  }
  return most;
}

TEST(Arena, LiveBuffersNeverOverlap) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    Draw draw(seed);
    std::vector<Lifetime> buffers;
    int64_t all = 0;
    for (int64_t count = draw.between(0, 40); count > 0; --count) {
      const int64_t first = draw.between(0, 30);
      buffers.push_back({draw.chance(10) ? 0 : draw.between(1, 5000), first, first + draw.between(0, 8)});
      all += rounded(buffers.back().bytes);
    }
    const ArenaPlan plan = plan_arena(buffers);
    ASSERT_EQ(plan.offsets.size(), buffers.size());
    EXPECT_GE(plan.bytes, least_bytes(buffers));
    EXPECT_LE(plan.bytes, all);
    for (size_t i = 0; i < buffers.size(); ++i) {
      const int64_t from = plan.offsets[i], to = from + buffers[i].bytes;
      EXPECT_GE(from, 0);
      EXPECT_EQ(from % 64, 0);
      EXPECT_LE(to, plan.bytes);
      for (size_t j = 0; j < i; ++j) {
        const bool together = buffers[i].first <= buffers[j].last && buffers[j].first <= buffers[i].last;
        const bool apart = to <= plan.offsets[j] || plan.offsets[j] + buffers[j].bytes <= from;
        EXPECT_TRUE(!together || apart) << "seed " << seed << ": buffers " << j << " and " << i;
      }
    }
    EXPECT_EQ(plan_arena(buffers).offsets, plan.offsets);
  }
}

/// Whether no two buffers that are live in the same step overlap. Sweeps over the steps.
bool all_apart(const std::vector<Lifetime>& buffers, const ArenaPlan& plan) {
  std::map<int64_t, std::vector<size_t>> begin, end;
  for (size_t i = 0; i < buffers.size(); ++i) {
    begin[buffers[i].first].push_back(i);
    end[buffers[i].last + 1].push_back(i);
  }
  std::map<int64_t, int64_t> live;  // offset -> end
  for (const auto& [step, starting] : begin) {
    for (auto it = end.begin(); it != end.end() && it->first <= step; it = end.erase(it)) {
      for (size_t i : it->second) live.erase(plan.offsets[i]);
    }
    for (size_t i : starting) {
      const auto [at, fresh] = live.emplace(plan.offsets[i], plan.offsets[i] + rounded(buffers[i].bytes));
      if (!fresh || (at != live.begin() && std::prev(at)->second > at->first)) return false;
      if (std::next(at) != live.end() && at->second > std::next(at)->first) return false;
    }
  }
  return true;
}

TEST(Arena, ManyBuffersArePlaced) {
  constexpr int64_t kCount = 30000;
  for (const int64_t most : {int64_t{64}, int64_t{5000}}) {
    Draw draw(static_cast<uint64_t>(most));
    std::vector<Lifetime> buffers;
    int64_t all = 0;
    for (int64_t i = 0; i < kCount; ++i) {
      buffers.push_back({draw.between(1, most), i, draw.chance(50) ? i + 1 : draw.between(kCount, 2 * kCount)});
      all += rounded(buffers.back().bytes);
    }
    const ArenaPlan plan = plan_arena(buffers);
    EXPECT_TRUE(all_apart(buffers, plan));
    EXPECT_LT(plan.bytes, all);
    EXPECT_EQ(plan_arena(buffers).offsets, plan.offsets);
  }
}

TEST(Arena, AChainNeedsTwoBuffers) {
  std::vector<Lifetime> chain;
  for (int64_t i = 0; i < 10; ++i) chain.push_back({1000, i, i + 1});
  EXPECT_EQ(plan_arena(chain).bytes, 2 * 1024);
}

TEST(Arena, SmallBuffersShareTheSpaceOfALargeOne) {
  const ArenaPlan plan = plan_arena({{4096, 0, 1}, {100, 2, 4}, {200, 2, 4}, {64, 3, 3}});
  EXPECT_EQ(plan.bytes, 4096);
  EXPECT_EQ(plan.offsets, (std::vector<int64_t>{0, 256, 0, 384}));
}

TEST(Arena, NoBuffersNeedNoMemory) { EXPECT_EQ(plan_arena({}).bytes, 0); }

/// The offsets of all elements in row-major order.
std::vector<int64_t> walk(const Shape& shape, const Shape& strides) {
  std::vector<int64_t> offsets;
  std::function<void(size_t, int64_t)> visit = [&](size_t d, int64_t at) {
    if (d == shape.size()) return offsets.push_back(at);
    for (int64_t i = 0; i < shape[d]; ++i) visit(d + 1, at + i * strides[d]);
  };
  visit(0, 0);
  return offsets;
}

/// Whether `offsets` are those of a strided view of this shape; finds the strides from the neighbours of element 0.
bool has_strides(const std::vector<int64_t>& offsets, const Shape& shape) {
  const Shape dense = dense_strides(shape);
  Shape strides(shape.size(), 0);
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] > 1) strides[d] = offsets[static_cast<size_t>(dense[d])] - offsets[0];
  }
  return walk(shape, strides) == offsets;
}

TEST(Views, StridesAreFoundIfAndOnlyIfTheyExist) {
  int found = 0;
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    Draw draw(seed);
    Shape shape, strides;
    for (int64_t rank = draw.between(0, 4); rank > 0; --rank) shape.push_back(draw.pick({1, 2, 2, 3, 4, 6}));
    strides = dense_strides(shape);
    for (size_t d = 0; d < shape.size(); ++d) {  // parts of a wider buffer, broadcasts, transposes
      if (draw.chance(25))
        std::for_each(strides.begin(), strides.begin() + static_cast<int64_t>(d), [](auto& s) { s *= 2; });
      if (draw.chance(8)) strides[d] = 0;
      if (draw.chance(10)) std::swap(strides[d], strides[0]);
    }
    Shape to;
    int64_t left = elems(shape);
    for (int64_t factor : {2, 3, 2, 4, 3, 2, 2}) {
      if (draw.chance(20)) to.push_back(1);
      if (left % factor == 0 && draw.chance(60)) to.push_back(factor), left /= factor;
    }
    to.insert(to.begin() + draw.between(0, static_cast<int64_t>(to.size())), left);
    const std::vector<int64_t> offsets = walk(shape, strides);
    const auto view = view_strides(shape, strides, to);
    EXPECT_EQ(view.has_value(), has_strides(offsets, to))
        << "seed " << seed << ": " << text(shape) << " by " << text(strides) << " as " << text(to);
    if (!view) continue;
    ++found;
    EXPECT_EQ(walk(to, *view), offsets) << "seed " << seed << ": " << text(shape) << " as " << text(to);
  }
  EXPECT_GT(found, 500);
}

TEST(Views, EmptyTensorsAreAlwaysViews) { EXPECT_EQ(view_strides({2, 0, 3}, {7, 5, 1}, {0, 4}), (Shape{4, 1})); }

}  // namespace
}  // namespace kilter
