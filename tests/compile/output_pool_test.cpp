// Memory that results of any size share.
#include "compile/output_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <random>
#include <thread>

namespace kilter {
namespace {

constexpr int64_t kKilo = 1024;

TEST(OutputPool, MemoryIsReusedForOtherTypesAndShapes) {
  OutputPool pool;
  const std::byte* memory = nullptr;
  {
    const Tensor first = pool.take(DType::f32, {4, 64});
    memory = first.raw();
    EXPECT_EQ(first.shape(), (Shape{4, 64}));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % 64, 0U);
  }
  EXPECT_EQ(pool.take(DType::i64, {3, 40}).raw(), memory) << "960 of 1024 bytes";
  EXPECT_NE(pool.take(DType::f32, {3, 32}).raw(), memory) << "384 of 1024 bytes would waste more than half";
  EXPECT_NE(pool.take(DType::f32, {5, 64}).raw(), memory);
}

TEST(OutputPool, ResultsInUseKeepTheirMemory) {
  OutputPool pool;
  std::vector<Tensor> held;
  for (int32_t i = 0; i < 20; ++i) {
    held.push_back(pool.take(DType::i32, {100}));
    std::fill_n(held.back().data<int32_t>(), 100, i);
    if (i % 5 == 4) pool.begin_run();
  }
  for (int32_t i = 0; i < 20; ++i) {
    EXPECT_TRUE(std::ranges::all_of(held[static_cast<size_t>(i)].span<int32_t>(), [i](int32_t x) { return x == i; }));
  }
}

TEST(OutputPool, EmptyTensorsTakeNoMemory) {
  OutputPool pool;
  EXPECT_EQ(pool.take(DType::f32, {3, 0, 5}).shape(), (Shape{3, 0, 5}));
  EXPECT_EQ(pool.bytes(), 0);
}

TEST(OutputPool, StaysWithinTwiceTheNeed) {
  OutputPool pool;
  std::mt19937 random(1);
  std::vector<int64_t> needs;
  for (int run = 0; run < 300; ++run) {
    pool.begin_run();
    std::deque<Tensor> live;
    int64_t asked = 0, need = 0;
    for (int i = 0; i < 12; ++i) {
      live.push_back(pool.take(DType::u8, {64 * static_cast<int64_t>(1 + random() % 16384)}));
      asked += live.back().bytes();
      need = std::max(need, asked);
      std::vector<int64_t> recent(needs.end() - std::min<int64_t>(std::ssize(needs), OutputPool::kRuns - 1),
                                  needs.end());
      recent.push_back(need);
      ASSERT_LE(pool.bytes(), 2 * *std::ranges::max_element(recent)) << "run " << run;
      if (live.size() > 4) {
        asked -= live.front().bytes();
        live.pop_front();
      }
    }
    needs.push_back(need);
  }
  EXPECT_GE(pool.bytes(), needs.back()) << "it keeps what a run needs";
}

TEST(OutputPool, ForgetsALargeRunAfterSomeSmallOnes) {
  OutputPool pool;
  pool.begin_run();
  pool.take(DType::u8, {900 * kKilo});
  EXPECT_EQ(pool.bytes(), 900 * kKilo);
  for (int run = 1; run < OutputPool::kRuns; ++run) {
    pool.begin_run();
    pool.take(DType::u8, {kKilo});
    EXPECT_GE(pool.bytes(), 900 * kKilo);
  }
  pool.begin_run();
  EXPECT_EQ(pool.bytes(), kKilo);
}

TEST(OutputPool, ResultsMayBeReleasedInAnotherThreadAndAfterThePool) {
  std::vector<Tensor> held;
  {
    OutputPool pool;
    for (int i = 0; i < 50; ++i) held.push_back(pool.take(DType::f32, {1000 + i}));
    std::thread other([&held] { held.resize(10); });
    for (int i = 0; i < 50; ++i) pool.take(DType::f32, {1000 + i});
    other.join();
  }
  std::fill_n(held.back().data<float>(), held.back().elems(), 1.0F);
  held.clear();
}

}  // namespace
}  // namespace kilter
