// The interpreter: results of small kernels, masks, bounds.
#include <gtest/gtest.h>

#include <cmath>

#include "loop/loop.h"
#include "loop/passes/passes.h"
#include "target/target.h"

namespace kilter {
namespace {

template <class T>
std::byte* bytes(std::vector<T>& v) {
  return reinterpret_cast<std::byte*>(v.data());
}

/// Returns a function that computes y[i] = x[k[i]] with checked indices, in a vector loop with a remainder.
LoopFunc checked_gather() {
  LoopBuilder b("checked");
  const Buf k = b.input("k", DType::i64, 2 * 19), x = b.input("x", DType::f32, 5);
  const Buf y = b.output("y", DType::f32, 2 * 19);
  const Expr row = b.parallel("row", 2) * Expr(19);
  b.vector_loop("v", 19, [&](const Expr& v) {
    const Expr index = b.let("index", b.load(k, row + v));
    const Expr inside = b.let("inside", binary(Op::lt, bitcast(DType::u64, index), imm_int(DType::u64, 5)));
    b.check(inside);
    b.store(y, row + v, b.load(x, select(inside, index, Expr(0))));
  });
  return b.finish();
}

TEST(Interpret, FailedChecksAreReported) {
  const LoopFunc plain = checked_gather();
  verify(plain);
  for (const std::string_view target : {"x86-64-v2", "x86-64-v3", "x86-64-v4", "neoverse-n1", "a64fx"}) {
    const LoopFunc f = loop_passes::lower(plain, parse_target(target).limits);
    for (size_t bad = 0; bad <= 38; ++bad) {
      std::vector<int64_t> ks(38, 4);
      if (bad < 38) ks[bad] = bad % 2 == 0 ? -1 : 5;
      std::vector<float> xs{0, 1, 2, 3, 4}, ys(38);
      const std::vector<std::byte*> args{bytes(ks), bytes(xs), bytes(ys)};
      const int32_t first = bad < 19 ? kCheckFailed : 0, second = bad >= 19 && bad < 38 ? kCheckFailed : 0;
      EXPECT_EQ(interpret(f, args, 0, 1), first) << bad << " " << target;
      EXPECT_EQ(interpret(f, args, 1, 2), second) << bad << " " << target;
      EXPECT_EQ(interpret(plain, args, 0, 2), first | second) << bad;
      for (size_t i = 0; i < 38; ++i) EXPECT_EQ(ys[i], i == bad ? 0 : 4);
    }
  }
}

TEST(Interpret, MatrixProductOverParallelRows) {
  constexpr int64_t kM = 3, kN = 4, kK = 5;
  LoopBuilder b("matmul");
  const Buf x = b.input("x", DType::f32, kM * kK);
  const Buf w = b.input("w", DType::f32, kK * kN);
  const Buf y = b.output("y", DType::f32, kM * kN);
  const Expr m = b.parallel("m", kM);
  b.vector_loop("n", kN, [&](Expr n) {
    const int32_t acc = b.reg("acc", imm(DType::f32, 0));
    b.loop("k", 0, kK, [&](Expr k) { b.set(acc, fma(b.load(x, m * kK + k), b.load(w, k * kN + n), b.get(acc))); });
    b.store(y, m * kN + n, b.get(acc));
  });
  const LoopFunc f = b.finish();
  verify(f);
  std::vector<float> xs(kM * kK), ws(kK * kN), ys(kM * kN, -1);
  for (size_t i = 0; i < xs.size(); ++i) xs[i] = static_cast<float>(i) - 4;
  for (size_t i = 0; i < ws.size(); ++i) ws[i] = static_cast<float>(i * i % 7);
  interpret(f, {bytes(xs), bytes(ws), bytes(ys)}, 1, kM);
  for (int64_t i = 0; i < kM * kN; ++i) {
    float want = i < kN ? -1.0F : 0.0F;  // the first row is outside the range that was run
    for (int64_t k = 0; i >= kN && k < kK; ++k) {
      want += xs[static_cast<size_t>(i / kN * kK + k)] * ws[static_cast<size_t>(k * kN + i % kN)];
    }
    EXPECT_EQ(ys[static_cast<size_t>(i)], want) << i;
  }
}

TEST(Interpret, MaskedAccessesTouchOnlyLanesThatAreOn) {
  LoopBuilder b("masks");
  const Buf x = b.input("x", DType::f32, 6);
  const Buf y = b.output("y", DType::f32, 6);
  const Expr mask = first_lanes(6, 8);
  b.store(y, 0, b.load(x, 0, 8, 1, mask) + imm(DType::f32, 1, 8), mask);
  b.scatter(y, ramp(5, -5, 4), imm(DType::f32, 9, 4), first_lanes(2, 4));
  const LoopFunc f = b.finish();
  verify(f);
  std::vector<float> xs{1, 2, 3, 4, 5, 6}, ys(6);
  interpret(f, {bytes(xs), bytes(ys)}, 0, 1);
  EXPECT_EQ(ys, (std::vector<float>{9, 3, 4, 5, 6, 9}));
}

TEST(Interpret, OutOfBoundsNamesBufferIndexAndLimit) {
  const LoopFunc f = parse_loop_func(
      "func \"f\" { input k: i64[2] input x: f32[4] output y: f32[4] for i in [0, 2) { y[i] = x[k[i]] } }");
  verify(f);
  std::vector<int64_t> ks{1, 7};
  std::vector<float> xs(4), ys(4);
  try {
    interpret(f, {bytes(ks), bytes(xs), bytes(ys)}, 0, 1);
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.message(), "interpret 'f': load of buffer 'x' at index 7: out of bounds, it has 4 elements");
  }
}

TEST(Interpret, ScratchIsUndefinedInEveryParallelIteration) {
  const LoopFunc f =
      parse_loop_func("func \"f\" { output y: f32[2] scratch s: f32[4] parallel p: 2 y[p] = s[0] s[0] = 1:f32 }");
  verify(f);
  std::vector<float> ys(2);
  interpret(f, {bytes(ys)}, 0, 2);
  EXPECT_TRUE(std::isnan(ys[0]));
  EXPECT_TRUE(std::isnan(ys[1]));
}

TEST(Interpret, HalfAndBooleanMemory) {
  const LoopFunc f = parse_loop_func(
      "func \"f\" { input h: f16[2] input b: bool[2] output y: f16[2] output c: bool[2]"
      " y[0] = h[0, lanes 2] * 3:f16x2  c[0] = not(b[0, lanes 2]) }");
  verify(f);
  std::vector<Half> hs{Half(1.0009765625F), Half(65504.0F)}, ys(2);
  std::vector<uint8_t> bs{0, 7}, cs(2, 9);
  interpret(f, {bytes(hs), bytes(bs), bytes(ys), bytes(cs)}, 0, 1);
  EXPECT_EQ(static_cast<float>(ys[0]), 3.00390625F) << "one rounding to even";
  EXPECT_TRUE(std::isinf(static_cast<float>(ys[1])));
  EXPECT_EQ(cs, (std::vector<uint8_t>{1, 0}));
}

TEST(Builder, Errors) {
  const auto message = [](const std::function<void(LoopBuilder&)>& f) -> std::string {
    LoopBuilder b("k");
    try {
      f(b);
    } catch (const Error& e) {
      return e.message();
    }
    return "no error";
  };
  EXPECT_EQ(
      message([](LoopBuilder& b) { b.store(b.input("x", DType::f32, 4), 0, imm(DType::f32, 0)); }),
      "store to 'x' of 'k': expected an output or scratch buffer, an i64 index and a value of f32, got index i64, "
      "value f32");
  EXPECT_EQ(message([](LoopBuilder& b) { b.set(b.reg("r", imm(DType::f32, 0)), imm(DType::i32, 0)); }),
            "register 'r' of 'k': expected a value of type f32, got i32");
  EXPECT_EQ(message([](LoopBuilder& b) {
              b.let("a", 1);
              b.parallel("p", 4);
            }),
            "loop function 'k': parallel dimension 'p' after a statement");
}

}  // namespace
}  // namespace kilter
