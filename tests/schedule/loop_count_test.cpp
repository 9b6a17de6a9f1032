// The instructions and cycles of small loops, compared with counts by hand.
#include "schedule/model/loop_count.h"

#include <gtest/gtest.h>

#include "target/target.h"

namespace kilter {
namespace {

CpuLimits limits(std::string_view target) { return parse_target(target).limits; }

/// Sums up each of 8 rows: y[i] is the sum of the 4 vectors of 16 in row i of x, accumulated in `sums` registers.
LoopFunc row_sums(int64_t sums) {
  LoopBuilder b("row_sums");
  const Buf x = b.input("x", DType::f32, 8 * 64), y = b.output("y", DType::f32, 8);
  const Expr i = b.parallel("i", 8);
  std::vector<int32_t> acc;
  for (int64_t s = 0; s < sums; ++s) acc.push_back(b.reg("acc", imm(DType::f32, 0, 16)));
  b.loop("v", 0, 64, 16 * sums, [&](const Expr& v) {
    for (int64_t s = 0; s < sums; ++s) {
      const int32_t reg = acc[static_cast<size_t>(s)];
      b.set(reg, b.get(reg) + b.load(x, i * 64 + v + Expr(16 * s), 16));
    }
  });
  Expr all = b.get(acc[0]);
  for (size_t s = 1; s < acc.size(); ++s) all = all + b.get(acc[s]);
  b.store(y, i, lane_reduce(Op::add, all));
  return b.finish();
}

TEST(LoopCount, CountsInstructionsTimesIterations) {
  const LoopCount c = count_loops(row_sums(1), limits("znver5"));
  EXPECT_EQ(c.items, 8);
  EXPECT_EQ(c.loads, 8 * 4);
  EXPECT_EQ(c.stores, 8);
  EXPECT_EQ(c.multiply_adds, 0);
  EXPECT_EQ(c.others, 8 * (4 + 2 * 4));   // four additions, and four steps that reduce 16 lanes
  EXPECT_EQ(c.scalars, 8 * (4 + 4 * 2));  // for the loop over the rows, and the loop within each
  EXPECT_EQ(c.bytes, 8 * (4 * 64 + 4));
  EXPECT_EQ(c.written, 8);
}

TEST(LoopCount, ChainsWaitForTheirLatency) {
  // Cycles of a row: 1 for its 4 scalar instructions. The loop issues 4 x 4 instructions in 4 cycles, but its chain of
  // additions takes 16. The 9 final instructions occupy the vector units for 4 cycles, but their chain of 4 steps takes
  // 24. A row has 29 instructions and the core looks 256 ahead, so only 29/256 of the difference is waited for.
  const LoopCount one = count_loops(row_sums(1), limits("znver5"));
  const double idle = (16 - 4) + (24 - 4);
  EXPECT_DOUBLE_EQ(one.waits, 8 * idle * 29 / 256);
  EXPECT_DOUBLE_EQ(one.cycles, 8 * (1 + 4 + 4) + one.waits);
  // Four chains of one addition each take 4 cycles.
  const LoopCount four = count_loops(row_sums(4), limits("znver5"));
  EXPECT_DOUBLE_EQ(four.others, 8 * (4 + 3 + 8));
  const double steps = 4 * 2 + 2;  // instructions of the loop
  EXPECT_DOUBLE_EQ(four.waits, 8 * ((4 - steps / 4) + (24 - 5.5)) * (4 + steps + 12) / 256);
  EXPECT_LT(four.cycles, one.cycles);
}

/// Computes y[v * write] = x[v * read] * 2 for 100 values of v.
LoopFunc strided(int64_t read, int64_t write) {
  LoopBuilder b("strided");
  const Buf x = b.input("x", DType::f32, 1000), y = b.output("y", DType::f32, 1000);
  b.parallel("i", 1);
  b.vector_loop("v", 100,
                [&](const Expr& v) { b.store(y, v * Expr(write), b.load(x, v * Expr(read)) * imm(DType::f32, 2)); });
  return b.finish();
}

TEST(LoopCount, LoopsToBeVectorisedCountAsVectors) {
  const LoopCount masks = count_loops(strided(1, 1), limits("znver5"));
  EXPECT_EQ(masks.loads, 7);  // the last one is masked
  EXPECT_EQ(masks.stores, 7);
  EXPECT_EQ(masks.others, 7);
  EXPECT_EQ(masks.written, 7 * 16);
  const LoopCount avx2 = count_loops(strided(1, 1), limits("x86-64-v3"));
  EXPECT_EQ(avx2.loads, 12 + 1);  // 100 = 12 x 8 + 4
  EXPECT_DOUBLE_EQ(avx2.written, 100);
  EXPECT_EQ(count_loops(strided(1, 1), limits("x86-64-v2")).loads, 25);
}

TEST(LoopCount, StridedElementsAreMovedOneByOne) {
  const LoopCount gathers = count_loops(strided(3, 1), limits("x86-64-v2"));
  EXPECT_EQ(gathers.loads, 100);
  EXPECT_EQ(gathers.stores, 25);
  EXPECT_EQ(gathers.others, 25 + 100);  // products, and elements inserted into their lanes
  const LoopCount scatters = count_loops(strided(1, 3), limits("x86-64-v2"));
  EXPECT_EQ(scatters.loads, 25);
  EXPECT_EQ(scatters.stores, 100);
  EXPECT_EQ(count_loops(strided(0, 1), limits("x86-64-v2")).loads, 0);  // moved out of the loop
}

TEST(LoopCount, InvariantLoadsMoveOutOfTheInnermostLoop) {
  LoopBuilder b("rows");
  const Buf x = b.input("x", DType::f32, 8 * 64), scale = b.input("scale", DType::f32, 8 * 16);
  const Buf y = b.output("y", DType::f32, 8 * 64);
  const Expr i = b.parallel("i", 8);
  b.loop("j", 0, 4, [&](const Expr& j) {
    const Expr at = b.let("at", i * 64 + j * 16);
    b.vector_loop("v", 16, [&](const Expr& v) { b.store(y, at + v, b.load(x, at + v) * b.load(scale, i * 16 + v)); });
  });
  EXPECT_EQ(count_loops(b.finish(), limits("znver5")).loads, 8 * 4);
}

TEST(LoopCount, LoadedIndicesAreNotVectorised) {
  LoopBuilder b("by_table");
  const Buf x = b.input("x", DType::f32, 100), at = b.input("at", DType::i64, 32);
  const Buf y = b.output("y", DType::f32, 32);
  b.parallel("i", 1);
  b.vector_loop("v", 32, [&](const Expr& v) { b.store(y, v, b.load(x, b.load(at, v))); });
  EXPECT_EQ(count_loops(b.finish(), limits("znver5")).loads, 32);
}

LoopFunc products(int32_t lanes, DType type = DType::f32) {
  LoopBuilder b("products");
  const Buf x = b.input("x", type, lanes), y = b.output("y", type, lanes);
  b.parallel("i", 1);
  const Expr v = b.let("v", b.load(x, 0, lanes));
  b.store(y, 0, fma(v, v, v));
  return b.finish();
}

TEST(LoopCount, VectorWidthFollowsTheTarget) {
  EXPECT_EQ(count_loops(products(16), limits("znver5")).multiply_adds, 1);
  EXPECT_EQ(count_loops(products(16), limits("x86-64-v3")).multiply_adds, 2);
  EXPECT_EQ(count_loops(products(16, DType::f64), limits("znver5")).multiply_adds, 2);
  const LoopCount sse = count_loops(products(16), limits("x86-64-v2"));
  EXPECT_EQ(sse.multiply_adds, 0);  // SSE needs a multiplication and an addition
  EXPECT_EQ(sse.others, 2 * 4);
}

TEST(LoopCount, UnitsFollowTheTarget) {
  // 64 vectors are loaded and multiplied, none stored.
  LoopBuilder b("units");
  const Buf x = b.input("x", DType::f32, 64 * 16);
  b.parallel("i", 1);
  std::vector<Expr> loaded;
  for (int i = 0; i < 64; ++i) {
    const Expr v = b.load(x, 16 * i, 16);
    b.let("product", fma(v, v, v));
  }
  const LoopFunc func = b.finish();
  CpuLimits two = limits("znver5");
  EXPECT_DOUBLE_EQ(count_loops(func, two).cycles, (64 + 64 + 4) / 4.0);  // limited by issue
  two.loads_per_cycle = 1;
  EXPECT_DOUBLE_EQ(count_loops(func, two).cycles, 64);
  CpuLimits halves = limits("znver4");
  EXPECT_DOUBLE_EQ(count_loops(func, halves).cycles, 64);  // each register occupies both ports
  halves.loads_per_cycle = 1;
  EXPECT_DOUBLE_EQ(count_loops(func, halves).cycles, 128);
}

TEST(LoopCount, VariableExtentsUseTheMiddleOfOuterLoops) {
  LoopBuilder b("triangle");
  const Buf x = b.input("x", DType::f32, 4096), y = b.output("y", DType::f32, 4096);
  const Expr i = b.parallel("i", 11);
  const Expr end = b.let("end", min(i, Expr(100)) + 1);
  b.loop("j", 0, end, [&](const Expr& j) { b.store(y, i * 64 + j, b.load(x, i * 64 + j)); });
  EXPECT_EQ(count_loops(b.finish(), limits("znver5")).loads, 11 * 6);  // 1 + 2 + ... + 11
}

TEST(LoopCount, BranchesAreTakenAsOftenAsTheirConditionHolds) {
  LoopBuilder b("branches");
  const Buf x = b.input("x", DType::f32, 64), y = b.output("y", DType::f32, 64);
  const Expr i = b.parallel("i", 8);
  b.if_then(
      binary(Op::lt, i, Expr(6)), [&] { b.store(y, i * 8, b.load(x, i * 8, 8)); },
      [&] {
        b.store(y, i * 8, b.load(x, i * 8));
        b.store(y, i * 8 + 1, b.load(x, i * 8 + 1));
      });
  EXPECT_DOUBLE_EQ(count_loops(b.finish(), limits("znver5")).loads, 6 + 2 * 2);
}

TEST(LoopCount, ExcessRegistersAreSpilled) {
  const auto sums = [](int64_t count) {
    LoopBuilder b("sums");
    const Buf x = b.input("x", DType::f32, 16);
    b.parallel("i", 1);
    std::vector<int32_t> acc;
    for (int64_t s = 0; s < count; ++s) acc.push_back(b.reg("acc", imm(DType::f32, 0, 8)));
    for (const int32_t reg : acc) b.set(reg, b.get(reg) + b.load(x, 0, 8));
    return count_loops(b.finish(), limits("x86-64-v3"));
  };
  EXPECT_EQ(sums(14).stores, 0);
  // 20 registers and two others exceed the 16 of the target by 6.
  EXPECT_DOUBLE_EQ(sums(20).stores, 6);
  EXPECT_DOUBLE_EQ(sums(20).loads, 20 + 6);
}

TEST(LoopCount, FunctionsCostWhatTheyExpandTo) {
  EXPECT_EQ(operation_cost(Op::add, DType::f32, limits("znver5")), 1);
  EXPECT_EQ(operation_cost(Op::abs, DType::f32, limits("znver5")), 1);
  EXPECT_EQ(operation_cost(Op::div, DType::f32, limits("znver5")), 8);
  EXPECT_EQ(operation_cost(Op::sqrt, DType::f64, limits("znver5")), 8);
  EXPECT_EQ(operation_cost(Op::add, DType::i64, limits("znver5")), 1);
  EXPECT_GT(operation_cost(Op::exp, DType::f32, limits("znver5")), 8);
  EXPECT_GT(operation_cost(Op::exp, DType::f64, limits("znver5")),
            operation_cost(Op::exp, DType::f32, limits("znver5")));
  EXPECT_GT(operation_cost(Op::sigmoid, DType::f32, limits("znver5")),
            operation_cost(Op::exp, DType::f32, limits("znver5")));
  EXPECT_GT(operation_cost(Op::pow, DType::f32, limits("znver5")),
            operation_cost(Op::exp, DType::f32, limits("znver5")));
}

}  // namespace
}  // namespace kilter
