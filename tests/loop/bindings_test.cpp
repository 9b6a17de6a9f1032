// Loops bound to blocks and threads, memory spaces and barriers: text form, the verifier's rules, the interpreter, and
// the parts that passes do not change.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "loop/loop.h"
#include "loop/passes/passes.h"
#include "target/target.h"
#include "verify_message.h"

namespace kilter {
namespace {

template <class T>
std::byte* bytes(std::vector<T>& v) {
  return reinterpret_cast<std::byte*>(v.data());
}

/// Verifies a function with the given statements, the buffers x, k and y, and those in `head`. Returns the message.
std::string check(const std::string& statements, const std::string& head = "  scratch s: shared f32[32]\n") {
  const std::string buffers = "  input x: f32[128]\n  input k: i64[10]\n  output y: f32[128]\n";
  return message(parse_loop_func("func \"f\" {\n" + buffers + head + statements + "}\n"));
}

/// Returns loops over 4 blocks of 32 threads around the statements.
std::string nest(const std::string& statements) {
  return "for b in [0, 4) block_x { for t in [0, 32) thread_x { " + statements + " } }";
}

TEST(Bindings, TextRoundTrips) {
  const std::string text = R"(func "blocks" {
  input x: f32[512]
  input w: constant f32[8]
  output y: f32[512]
  scratch tile: shared f32[64] align 16
  scratch own: local f32[4]
  for bz in [0, 2) block_z {
    for by in [0, 2) block_y {
      for bx in [0, 2) block_x {
        let first = (bz * 2 + by) * 2 + bx
        for tz in [0, 4) thread_z {
          for ty in [0, 4) thread_y {
            for tx in [0, 4) thread_x {
              let t = (tz * 4 + ty) * 4 + tx
              tile[t] = x[first * 64 + t] * w[0]
              barrier
              own[0] = tile[63 - t]
              y[first * 64 + t] = own[0]
            }
          }
        }
      }
    }
  }
}
)";
  const LoopFunc f = parse_loop_func(text);
  EXPECT_EQ(print(f), text);
  EXPECT_EQ(message(f), "");
  EXPECT_EQ(f.scratch_bytes(), 0) << "shared and local memory is no worker's";
  // A buffer may have the name of a memory space or a binding, but not that of the barrier statement.
  LoopBuilder b("names");
  const Buf y = b.output("barrier", DType::f32, 1), s = b.output("shared", DType::f32, 1);
  b.store(y, 0, imm(DType::f32, 1));
  b.store(s, 0, imm(DType::f32, 1));
  const std::string named = print(b.finish());
  EXPECT_EQ(named,
            "func \"names\" {\n  output barrier_: f32[1]\n  output shared: f32[1]\n  barrier_[0] = 1:f32\n"
            "  shared[0] = 1:f32\n}\n");
  EXPECT_EQ(print(parse_loop_func(named)), named);
}

TEST(Bindings, BoundLoopsAreOneNestAroundAllStatements) {
  EXPECT_EQ(check(nest("y[b * 32 + t] = 0:f32")), "");
  EXPECT_EQ(check("for t in [0, 32) thread_x { y[t] = 0:f32 }"), "");
  EXPECT_EQ(check("for b in [0, 4) block_x { y[b] = 0:f32 }", ""), "");
  EXPECT_EQ(check("let n = k[0] for b in [0, 4) block_x { let m = n + b for t in [0, 32) thread_x { prefetch x[m] } }"),
            "");
  EXPECT_EQ(check("y[0] = 0:f32 " + nest("")),
            "verify 'f': a statement is next to a loop that is bound to blocks or threads; only lets may precede "
            "the loop");
  EXPECT_EQ(check(nest("") + " let n = k[0]"),
            "verify 'f': a statement is next to a loop that is bound to blocks or threads; only lets may precede "
            "the loop");
  EXPECT_EQ(check("for b in [0, 4) block_x { reg r = 0:f32 for t in [0, 32) thread_x { } }"),
            "verify 'f': a statement is next to a loop that is bound to blocks or threads; only lets may precede "
            "the loop");
  EXPECT_EQ(check("for i in [0, 4) { for t in [0, 32) thread_x { } }", ""),
            "verify 'f': loop 't' is bound to thread_x inside other statements; expected a nest of bound loops "
            "around all of them");
  EXPECT_EQ(check(nest("if t < 3 { for u in [0, 2) thread_y { } }")),
            "verify 'f': loop 'u' is bound to thread_y inside other statements; expected a nest of bound loops "
            "around all of them");
  EXPECT_EQ(check("for t in [0, 32) thread_x { for b in [0, 4) block_x { } }"),
            "verify 'f': loop 'b' is bound to block_x inside a loop over threads; expected blocks outside of "
            "threads");
  EXPECT_EQ(check(nest("for u in [0, 2) thread_x { }")), "verify 'f': loops 't' and 'u' are both bound to thread_x");
  EXPECT_EQ(check(nest("y[b * 32 + t] = 0:f32"), "  scratch s: shared f32[32]\n  parallel p: 2\n"),
            "verify 'f': loops are bound to blocks or threads in a function with parallel dimension 'p'; expected one "
            "or the other");
}

TEST(Bindings, BoundLoopsHaveConstantExtents) {
  const std::string expected = "; expected [0, N) with a constant N of at least 1 and step 1";
  EXPECT_EQ(check("for t in [0, k[0]) thread_x { }"), "verify 'f': loop 't' is bound to thread_x" + expected);
  EXPECT_EQ(check("for t in [1, 4) thread_y { }"), "verify 'f': loop 't' is bound to thread_y" + expected);
  EXPECT_EQ(check("for t in [0, 4) step 2 thread_z { }"), "verify 'f': loop 't' is bound to thread_z" + expected);
  EXPECT_EQ(check("for b in [0, 0) block_y { }", ""), "verify 'f': loop 'b' is bound to block_y" + expected);
}

TEST(Bindings, MemorySpacesAreChecked) {
  EXPECT_EQ(check("y[0] = s[0]"), "verify 'f': scratch 's' is in shared memory, but no loop is bound to threads");
  EXPECT_EQ(check("for b in [0, 4) block_x { y[b] = s[0] }", "  scratch s: local f32[4]\n"),
            "verify 'f': scratch 's' is in local memory, but no loop is bound to threads");
  EXPECT_EQ(
      check(nest(""), "  scratch s: f32[4]\n"),
      "verify 'f': scratch 's' is in global memory; expected shared or local memory in a function with bound loops");
  EXPECT_EQ(check(nest(""), "  output z: shared f32[4]\n"),
            "verify 'f': buffer 'z' is in shared memory; expected scratch there");
  EXPECT_EQ(check(nest(""), "  input z: local f32[4]\n"),
            "verify 'f': buffer 'z' is in local memory; expected scratch there");
  EXPECT_EQ(check(nest(""), "  output z: constant f32[4]\n"),
            "verify 'f': buffer 'z' is in constant memory; expected an input there");
  EXPECT_EQ(check("y[0] = z[0]", "  input z: constant f32[4]\n"), "");
}

TEST(Bindings, AllThreadsReachABarrierEquallyOften) {
  EXPECT_EQ(check(nest("s[t] = 0:f32 barrier y[b * 32 + t] = s[31 - t]")), "");
  EXPECT_EQ(check(nest("for i in [0, b + 1) { { barrier } } if b < 2 { barrier } else { barrier }")), "");
  EXPECT_EQ(check(nest("for i in [0, 4) unrolled { barrier }")), "");
  EXPECT_EQ(check("barrier", ""), "verify 'f': a barrier is outside of loops that are bound to threads");
  EXPECT_EQ(check("for b in [0, 4) block_x { barrier }", ""),
            "verify 'f': a barrier is outside of loops that are bound to threads");
  EXPECT_EQ(check(nest("let n = t / 2 for i in [0, n) { barrier }")),
            "verify 'f': a barrier is in loop 'i', whose bounds may differ between threads: [0, n)");
  EXPECT_EQ(check(nest("if t < 16 { barrier }")),
            "verify 'f': a barrier is under an if whose condition may differ between threads: t < 16");
  EXPECT_EQ(check(nest("if b < 2 { } else { for i in [0, 2) { if k[0] < 3 { barrier } } }")),
            "verify 'f': a barrier is under an if whose condition may differ between threads: k[0] < 3")
      << "what is loaded may differ";
  EXPECT_EQ(check(nest("for v in [0, 16) vector { barrier }")),
            "verify 'f': a barrier is in vector loop 'v'; expected serial or unrolled loops");
}

TEST(Bindings, ThreadsMustNotStoreToTheSameElement) {
  EXPECT_EQ(check(nest("y[t] = 0:f32")),
            "verify 'f': two blocks store to the same element of 'y': index t, which does not depend on 'b' of extent "
            "4");
  EXPECT_EQ(check(nest("y[b] = 0:f32")),
            "verify 'f': two threads store to the same element of 'y': index b, which does not depend on 't' of extent "
            "32");
  EXPECT_EQ(check(nest("y[b + t] = 0:f32")),
            "verify 'f': two blocks store to the same element of 'y': index b + t, whose spans overlap (1 lanes a "
            "store)");
  EXPECT_EQ(check(nest("y[b * 32 + t / 2] = 0:f32")), "") << "not decidable";
  EXPECT_EQ(check(nest("if t == 0 { y[b] = 0:f32 }")), "") << "under a condition on the thread";
  EXPECT_EQ(check(nest("s[0] = 0:f32")),
            "verify 'f': two threads store to the same element of 's': index 0, which does not depend on 't' of extent "
            "32");
  EXPECT_EQ(check(nest("for i in [0, 2) { s[t + i] = 0:f32 }"), "  scratch s: shared f32[33]\n"),
            "verify 'f': two threads store to the same element of 's': index t + i, whose spans overlap (1 lanes a "
            "store)");
  EXPECT_EQ(check(nest("for i in [0, 2) { s[t + i] = 0:f32 barrier }"), "  scratch s: shared f32[33]\n"), "")
      << "a barrier stands between";
  EXPECT_EQ(check(nest("s[0] = 0:f32"), "  scratch s: local f32[1]\n"), "") << "each thread has its own";
}

/// y[row, column] = sum of x[row, k] * w[k, column], computed by blocks of 4 x 4 threads that share tiles of x and w.
LoopFunc tiled_product(int64_t m, int64_t n, int64_t k) {
  constexpr int64_t kTile = 4;
  LoopBuilder b("tiled_product");
  const Buf x = b.input("x", DType::f32, m * k), w = b.input("w", DType::f32, k * n, MemorySpace::constant);
  const Buf y = b.output("y", DType::f32, m * n);
  const Buf xs = b.scratch("xs", DType::f32, kTile * kTile, MemorySpace::shared);
  const Buf ws = b.scratch("ws", DType::f32, kTile * kTile, MemorySpace::shared);
  const auto product = [&](const Expr& by, const Expr& bx, const Expr& ty, const Expr& tx) {
    const Expr row = b.let("row", by * kTile + ty), column = b.let("column", bx * kTile + tx);
    const int32_t sum = b.reg("sum", imm(DType::f32, 0));
    b.loop("k0", 0, k, kTile, [&](const Expr& k0) {
      b.store(xs, ty * kTile + tx, b.load(x, row * k + k0 + tx));
      b.store(ws, ty * kTile + tx, b.load(w, (k0 + ty) * n + column));
      b.barrier();
      b.loop(
          "i", 0, kTile, 1,
          [&](const Expr& i) { b.set(sum, fma(b.load(xs, ty * kTile + i), b.load(ws, i * kTile + tx), b.get(sum))); },
          LoopKind::unrolled);
      b.barrier();
    });
    b.store(y, row * n + column, b.get(sum));
  };
  b.bound_loop("by", m / kTile, LoopKind::block_y, [&](const Expr& by) {
    b.bound_loop("bx", n / kTile, LoopKind::block_x, [&](const Expr& bx) {
      b.bound_loop("ty", kTile, LoopKind::thread_y, [&](const Expr& ty) {
        b.bound_loop("tx", kTile, LoopKind::thread_x, [&](const Expr& tx) { product(by, bx, ty, tx); });
      });
    });
  });
  return b.finish();
}

TEST(Bindings, ATiledProductSharesItsTiles) {
  constexpr int64_t kM = 8, kN = 12, kK = 16;
  const LoopFunc plain = tiled_product(kM, kN, kK);
  EXPECT_EQ(message(plain), "");
  EXPECT_EQ(plain.parallel_extent(), 1);
  std::vector<float> x(kM * kK), w(kK * kN);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 11) - 4;
  for (size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(i * i % 7);
  const LoopFunc lowered = loop_passes::lower(plain, parse_target("x86-64-v4").limits);
  for (const LoopFunc& f : {plain, lowered, parse_loop_func(print(lowered))}) {
    std::vector<float> y(kM * kN, -1);
    EXPECT_EQ(interpret(f, {bytes(x), bytes(w), bytes(y)}, 0, 1), 0);
    for (int64_t i = 0; i < kM * kN; ++i) {
      float want = 0;
      for (int64_t k = 0; k < kK; ++k)
        want += x[static_cast<size_t>(i / kN * kK + k)] * w[static_cast<size_t>(k * kN + i % kN)];
      EXPECT_EQ(y[static_cast<size_t>(i)], want) << i;
    }
  }
}

TEST(Bindings, WithoutABarrierThreadsDoNotSeeEachOthersValues) {
  // The interpreter runs the threads one after another, so the first ones read elements that are not written yet.
  const std::string head = "func \"f\" {\n  input x: f32[4]\n  output y: f32[4]\n  scratch s: shared f32[4]\n";
  const auto run = [&](const std::string& between) {
    const LoopFunc f =
        parse_loop_func(head + "for t in [0, 4) thread_x { s[t] = x[t] " + between + " y[t] = s[3 - t] } }\n");
    verify(f);
    std::vector<float> x{1, 2, 3, 4}, y(4);
    interpret(f, {bytes(x), bytes(y)}, 0, 1);
    return y;
  };
  EXPECT_EQ(run("barrier"), (std::vector<float>{4, 3, 2, 1}));
  EXPECT_TRUE(std::isnan(run("")[0]));
}

/// y[b] is the sum of 32 elements of x. In each step, the threads of block b add one half of the partial sums to the
/// other half.
const char* const kBlockSums = R"(func "block_sums" {
  input x: f32[128]
  output y: f32[4]
  output ran: i64[4]
  scratch part: shared f32[32]
  scratch mine: local f32[1]
  for b in [0, 4) block_x {
    let first = b * 32
    for t in [0, 32) thread_x {
      mine[0] = x[first + t]
      part[t] = mine[0]
      barrier
      reg width = 16
      for step in [0, 4 + b / 3) {
        if t < width {
          part[t] = part[t] + part[t + width]
        }
        barrier
        set width = width / 2
      }
      if b < 3 {
        if t == 0 {
          part[0] = part[0] + part[1]
        }
        barrier
      }
      if t == 0 {
        y[b] = part[0]
        ran[b] = width
      }
      check mine[0] < 1000:f32
    }
  }
}
)";

TEST(Bindings, BlocksReduceInSharedMemory) {
  const LoopFunc plain = parse_loop_func(kBlockSums);
  EXPECT_EQ(message(plain), "");
  std::vector<float> x(128);
  std::iota(x.begin(), x.end(), 0.0F);
  const LoopFunc lowered = loop_passes::lower(plain, parse_target("x86-64-v3").limits);
  EXPECT_EQ(message(lowered), "");
  for (const LoopFunc& f : {plain, lowered}) {
    std::vector<float> y(4);
    std::vector<int64_t> width(4);
    EXPECT_EQ(interpret(f, {bytes(x), bytes(y), bytes(width)}, 0, 1), 0);
    EXPECT_EQ(y, (std::vector<float>{496, 1520, 2544, 3568}));
    EXPECT_EQ(width, (std::vector<int64_t>{1, 1, 1, 0})) << "the last block took one step more";
  }
  std::vector<float> y(4);
  std::vector<int64_t> width(4);
  x[77] = 1000;
  EXPECT_EQ(interpret(plain, {bytes(x), bytes(y), bytes(width)}, 0, 1), kCheckFailed) << "in one thread";
}

TEST(Bindings, PassesKeepBoundLoopsOfOneIteration) {
  const LoopFunc f = loop_passes::simplify(parse_loop_func(
      "func \"f\" {\n  output y: f32[2]\n  for b in [0, 1) block_x { for t in [0, 1) thread_x { for i in [0, 1) { "
      "barrier y[b + t + i] = 0:f32 } } }\n}\n"));
  EXPECT_EQ(print(f),
            "func \"f\" {\n  output y: f32[2]\n  for b in [0, 1) block_x {\n    for t in [0, 1) thread_x {\n"
            "      barrier\n      y[b + t] = 0:f32\n    }\n  }\n}\n");
}

TEST(Bindings, VectorCodeHoldsNoBarrier) {
  const LoopFunc f = parse_loop_func(
      "func \"f\" {\n  output y: f32[16]\n  for t in [0, 1) thread_x { for v in [0, 16) vector { barrier } }\n}\n");
  try {
    loop_passes::vectorise(f, parse_target("x86-64-v4").limits);
    ADD_FAILURE();
  } catch (const Error& e) {
    EXPECT_EQ(e.message(), "vectorise 'f': loop 'v' contains a barrier");
  }
}

}  // namespace
}  // namespace kilter
