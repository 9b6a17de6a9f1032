// Every pass preserves the meaning of random functions. The text form of these functions and of the passes' results
// round-trips.
#include <gtest/gtest.h>

#include "loop/passes/passes.h"
#include "random_func.h"

namespace kilter {
namespace {

using loop_passes::hoist;
using loop_passes::simplify;
using loop_passes::unroll;
using loop_passes::vectorise;

CpuLimits limits(int32_t vector_bytes, bool masks) {
  CpuLimits l;
  l.vector_bytes = vector_bytes;
  l.masks = masks;
  return l;
}

/// Runs `body` for each seed; a failure shows the seed and the function.
void for_seeds(int count, const std::function<void(const LoopFunc&, uint64_t)>& body) {
  for (int seed = 1; seed <= count; ++seed) {
    const LoopFunc func = test::random_func(static_cast<uint64_t>(seed));
    SCOPED_TRACE(fmt::format("seed {}\n{}", seed, print(func)));
    try {
      body(func, static_cast<uint64_t>(seed));
    } catch (const Error& e) {
      FAIL() << e.message();
    }
    if (testing::Test::HasFailure()) return;
  }
}

void expect_same(const LoopFunc& before, const LoopFunc& after, uint64_t seed) {
  verify(after);
  EXPECT_EQ(test::run(before, seed).difference(test::run(after, seed)), "") << print(after);
}

constexpr int kSeeds = 120;

TEST(RandomLoops, VerifyAndRun) {
  for_seeds(kSeeds, [](const LoopFunc& f, uint64_t seed) {
    verify(f);
    test::run(f, seed);
  });
}

TEST(RandomLoops, TextRoundTrips) {
  for_seeds(kSeeds, [](const LoopFunc& f, uint64_t seed) {
    const std::string text = print(f);
    const LoopFunc back = parse_loop_func(text);
    EXPECT_EQ(print(back), text);
    expect_same(f, back, seed);
    const std::string lowered = print(hoist(simplify(unroll(vectorise(f, limits(32, true))))));
    EXPECT_EQ(print(parse_loop_func(lowered)), lowered);
  });
}

TEST(RandomLoops, Simplify) {
  for_seeds(kSeeds, [](const LoopFunc& f, uint64_t seed) {
    const LoopFunc once = simplify(f);
    expect_same(f, once, seed);
    EXPECT_EQ(print(simplify(once)), print(once));
  });
}

TEST(RandomLoops, Unroll) {
  for_seeds(kSeeds, [](const LoopFunc& f, uint64_t seed) { expect_same(f, unroll(f), seed); });
}

TEST(RandomLoops, Hoist) {
  for_seeds(kSeeds, [](const LoopFunc& f, uint64_t seed) { expect_same(f, hoist(f), seed); });
}

TEST(RandomLoops, VectoriseWithoutMasks) {
  for_seeds(kSeeds, [](const LoopFunc& f, uint64_t seed) {
    expect_same(f, vectorise(f, limits(seed % 2 == 0 ? 16 : 32, false)), seed);
  });
}

TEST(RandomLoops, VectoriseWithMasks) {
  for_seeds(kSeeds, [](const LoopFunc& f, uint64_t seed) {
    expect_same(f, vectorise(f, limits(seed % 3 == 0 ? 16 : 64, true)), seed);
  });
}

TEST(RandomLoops, AllPassesInOrder) {
  for_seeds(kSeeds, [](const LoopFunc& f, uint64_t seed) {
    const LoopFunc lowered = hoist(simplify(unroll(vectorise(f, limits(seed % 2 == 0 ? 32 : 64, seed % 2 == 1)))));
    expect_same(f, lowered, seed);
    expect_same(f, hoist(simplify(lowered)), seed);
  });
}

}  // namespace
}  // namespace kilter
