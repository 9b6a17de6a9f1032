// The store of constants: equal constants are stored once, freed space is reused, references in plans are adjusted.
#include <gtest/gtest.h>

#include <cstring>

#include "base/error.h"
#include "hand_made.h"
#include "tune/run/constant_store.h"
#include "tune/run/package.h"

namespace kilter::tune {
namespace {

std::vector<std::byte> bytes(size_t count, int fill) { return {count, static_cast<std::byte>(fill)}; }

TEST(ConstantStore, EqualBytesAreStoredOnce) {
  ConstantStore store;
  const StorePart a = store.add(bytes(1000, 1)), b = store.add(bytes(1000, 2)), again = store.add(bytes(1000, 1));
  EXPECT_EQ(a.offset, again.offset);
  EXPECT_EQ(a.serial, again.serial);
  EXPECT_NE(a.offset, b.offset);
  EXPECT_EQ(a.offset % 64, 0);
  EXPECT_EQ(store.used_bytes(), 2048);
  EXPECT_EQ(std::memcmp(store.data() + b.offset, bytes(1000, 2).data(), 1000), 0);
  EXPECT_EQ(store.data()[b.offset + 1000], std::byte{0});
  EXPECT_FALSE(store.release(a));
  EXPECT_TRUE(store.release(again));
  EXPECT_THROW(store.release(a), Error);
}

TEST(ConstantStore, LargeConstantsArePageAligned) {
  ConstantStore store;
  (void)store.add(bytes(100, 1));
  EXPECT_EQ(store.add(bytes(100000, 2)).offset % 4096, 0);
}

TEST(ConstantStore, FreedSpaceIsReusedWithANewSerial) {
  ConstantStore store;
  const StorePart a = store.add(bytes(3 << 20, 1)), b = store.add(bytes(3 << 20, 2)), c = store.add(bytes(3 << 20, 3));
  const int64_t size = store.size();
  store.release(a);
  store.release(b);
  const StorePart d = store.add(bytes(6 << 20, 4));
  EXPECT_EQ(d.offset, a.offset);
  EXPECT_NE(d.serial, a.serial);
  EXPECT_EQ(store.size(), size);
  EXPECT_EQ(store.data()[d.offset + (5 << 20)], std::byte{4});
  EXPECT_EQ(store.data()[c.offset], std::byte{3});
}

TEST(ConstantStore, BaseAddressDoesNotChange) {
  ConstantStore store;
  const std::byte* base = store.data();
  for (int i = 0; i < 20; ++i) (void)store.add(bytes(5 << 20, i));
  EXPECT_EQ(store.data(), base);
  EXPECT_EQ(store.used_bytes(), 20 * (5 << 20));
}

TEST(Package, ConstantsMoveIntoTheStoreAndBack) {
  ConstantStore store;
  (void)store.add(bytes(640, 9));
  const Plan plan = hand_made();
  const Package package = pack_variant(plan, hand_made_values(plan), store);
  ASSERT_EQ(package.parts.size(), 1U);
  const Unpacked got =
      unpack_variant(std::as_bytes(std::span(package.bytes.data(), package.bytes.size())), store.data(), store.size());
  const BufferRef& moved = got.plan.steps[1].args[1];
  EXPECT_EQ(moved.offset, package.parts[0].offset);
  EXPECT_EQ(std::memcmp(got.plan.constants + moved.offset, plan.constants, static_cast<size_t>(moved.bytes)), 0);
  EXPECT_EQ(got.plan.code_bytes, plan.code_bytes);
  ASSERT_EQ(got.values.size(), 4U);
  EXPECT_EQ(got.values[2].name, "value of layer2");
  EXPECT_EQ(got.values[2].buffer.offset, 2 * kCount * 4);
}

TEST(Package, StoredConstantsAreNotCopied) {
  ConstantStore store;
  (void)store.add(bytes(640, 9));
  const Plan plan = hand_made();
  PlacedPlan placed = place_constants(plan, store);
  ASSERT_EQ(placed.parts.size(), 1U);
  EXPECT_EQ(placed.plan.constants, store.data());
  const int64_t used = store.used_bytes();
  const Package package = pack_variant(placed.plan, hand_made_values(plan), store);
  EXPECT_EQ(store.used_bytes(), used);
  ASSERT_EQ(package.parts.size(), 1U);
  EXPECT_EQ(package.parts[0].serial, placed.parts[0].serial);
  EXPECT_FALSE(store.release(placed.parts[0]));
  EXPECT_TRUE(store.release(package.parts[0]));
}

TEST(Package, VariantsMadeInTheStoreRunLikeOthers) {
  LocalRunner runner(hand_made_options());
  const Plan plan = hand_made();
  const PlacedPlan placed = place_constants(plan, runner.store());
  ASSERT_TRUE(runner.load(placed.plan, hand_made_values(plan)).id);
  Plan variant = placed.plan;
  const std::vector<std::byte> zeros(static_cast<size_t>(kCount * 4));
  const StorePart own = runner.store().add(zeros);
  variant.steps[1].args[1].offset = own.offset;
  variant.constants_bytes = runner.store().size();
  const Loaded loaded = runner.load(variant, hand_made_values(plan));
  EXPECT_EQ(brief(loaded.faults), std::vector<std::string>{"1 wrong layer1"}) << "the constant is another one";
}

TEST(Package, ValuesOutsideOfTheirBuffersAreRefused) {
  ConstantStore store;
  const Plan plan = hand_made();
  std::vector<StepValue> values = hand_made_values(plan);
  values[3].layout.shape = {kCount + 1};
  try {
    (void)pack_variant(plan, values, store);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.message(),
              "value 'value of layer3' occupies 4036 bytes at byte 0 of the arena or an output, which has 4032");
  }
  EXPECT_EQ(store.used_bytes(), 0);
}

}  // namespace
}  // namespace kilter::tune
