// The number of threads for which a kernel has enough work.
#include "schedule/model/paying_threads.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

#include "schedule/model/loop_count.h"
#include "target/target.h"

namespace kilter {
namespace {

/// Computes y[i] = 2 x[i] in `rows` parallel rows of 1024.
LoopFunc doubled(int64_t rows) {
  LoopBuilder b("doubled");
  const Buf x = b.input("x", DType::f32, rows * 1024), y = b.output("y", DType::f32, rows * 1024);
  const Expr i = b.parallel("i", rows);
  b.loop("v", 0, 1024, 8, [&](const Expr& v) {
    const Expr value = b.load(x, i * 1024 + v, 8);
    b.store(y, i * 1024 + v, value + value);
  });
  return b.finish();
}

CpuLimits limits() { return parse_target("x86-64-v3").limits; }

TEST(PayingThreads, GrowWithTheWorkFromOne) {
  int32_t before = 1;
  for (int64_t rows = 2; rows <= 1 << 20; rows *= 2) {
    const int32_t threads = paying_threads(doubled(rows), limits());
    if (threads == 0) {
      EXPECT_GE(before, 512);
      return;
    }
    EXPECT_GE(threads, before) << rows;
    EXPECT_LE(threads, std::max(1, 2 * before + 1)) << rows;
    before = threads;
  }
  FAIL() << "the largest kernel still has a limit of " << before;
}

TEST(PayingThreads, FollowCyclesOrBytesWhicheverNeedMore) {
  const LoopFunc func = doubled(256);
  const LoopCount count = count_loops(func, limits());
  CpuLimits few = limits();
  few.thread_cycles = static_cast<int32_t>(count.cycles / 5 - 1);
  few.thread_bytes = static_cast<int32_t>(count.bytes);
  EXPECT_EQ(paying_threads(func, few), 5);
  few.thread_bytes = static_cast<int32_t>(count.bytes / 9);
  EXPECT_EQ(paying_threads(func, few), 9);
  few.thread_bytes = few.thread_cycles = INT32_MAX;
  EXPECT_EQ(paying_threads(func, few), 1);
}

TEST(PayingThreads, SingleItemHasNoLimit) { EXPECT_EQ(paying_threads(doubled(1), limits()), 0); }

}  // namespace
}  // namespace kilter
