// The block of packed constants: places, shared bytes, and returning unused memory.
#include "compile/stages/constant_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "draw.h"
#include "guarded_run.h"
#include "ops/support/evaluate.h"

namespace kilter {
namespace {

/// Adds `bytes` bytes with the same value.
int64_t add(ConstantPool& pool, int64_t bytes, int value) {
  return pool.add(bytes, [&](std::byte* to) { std::fill_n(to, bytes, std::byte(value)); });
}

TEST(ConstantPool, EqualConstantsShareTheirBytes) {
  ConstantPool pool(4 * stored_bytes(100));
  EXPECT_EQ(add(pool, 100, 1), 0);
  EXPECT_EQ(add(pool, 100, 2), 128);
  EXPECT_EQ(add(pool, 100, 1), 0);
  EXPECT_EQ(add(pool, 99, 1), 256) << "a prefix of another constant is not equal to it";
  EXPECT_EQ(pool.bytes(), 384);
}

TEST(ConstantPool, EveryConstantStartsWithZeroedMemory) {
  ConstantPool pool(4 * stored_bytes(100));
  add(pool, 100, 7);
  add(pool, 100, 7);  // its bytes are not kept
  bool zero = false;
  pool.add(100,
           [&](std::byte* to) { zero = std::all_of(to, to + 100, [](std::byte b) { return b == std::byte(0); }); });
  EXPECT_TRUE(zero);
}

TEST(ConstantPool, TheFinishedBlockHasAllConstants) {
  constexpr int64_t kLarge = int64_t{5} << 20;
  ConstantPool pool(8 * kLarge);  // more than is used: the rest is returned to the system
  const int64_t one = add(pool, kLarge, 1), two = add(pool, 3, 2);
  const Block block = pool.finish();
  EXPECT_TRUE(
      std::all_of(block.data() + one, block.data() + one + kLarge, [](std::byte b) { return b == std::byte(1); }));
  EXPECT_TRUE(std::all_of(block.data() + two, block.data() + two + 3, [](std::byte b) { return b == std::byte(2); }));
}

TEST(ConstantPool, TooLargeConstantIsRefused) {
  ConstantPool pool(2 * stored_bytes(100));
  add(pool, 100, 1), add(pool, 100, 2);
  try {
    add(pool, 100, 2);
    ADD_FAILURE() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.message(), "a constant of 100 bytes does not fit in a pool of 256 bytes, of which 256 are used");
  }
}

/// Two convolutions share their weights, of which the pool keeps one copy.
TEST(ConstantPool, LayersMayShareTheirWeights) {
  SweepNet net(1);
  const ValueId x = net.input({1, 64, 28, 28}), w = net.constant({64, 64, 3, 3}, 0.05F);
  const Attrs pads{{"pads", std::vector<int64_t>{1, 1, 1, 1}}};
  net.output(net.b.add("Conv", {net.b.add("Relu", {net.b.add("Conv", {x, w}, pads)}), w}, pads));
  const Compiled compiled = compile_for(net.graph(), native_target());
  EXPECT_EQ(run_guarded(std::make_shared<const Program>(compiled.plan), net.inputs(),
                        evaluate(net.graph(), net.inputs()), {.rtol = 1e-4, .atol = 1e-4}, 0),
            "");
}

TEST(ConstantPool, EmptyPoolHasABlock) {
  ConstantPool pool(0);
  EXPECT_NE(pool.finish().data(), nullptr);
}

}  // namespace
}  // namespace kilter
