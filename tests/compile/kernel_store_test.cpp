// Which functions of a layer share a kernel, and what the kernel reads for each of them.
#include "compile/kernel_store.h"

#include <gtest/gtest.h>

namespace kilter {
namespace {

LoopNumbers numbers(std::vector<int64_t> values, std::vector<int64_t> scratch = {}) {
  return {{}, std::move(values), std::move(scratch)};
}
using Dims = std::vector<int64_t>;

TEST(KernelFamily, FirstFunctionHasItsOwnKernel) {
  KernelFamily family;
  ASSERT_TRUE(family.add(numbers({7, 3, 7})));
  EXPECT_TRUE(family.is_single());
  EXPECT_TRUE(family.serves(numbers({7, 3, 7})));
  EXPECT_FALSE(family.serves(numbers({8, 3, 8})));
}

TEST(KernelFamily, DifferingNumbersAreReadAndEqualOnesShared) {
  KernelFamily family;
  family.add(numbers({7, 3, 7, 14}));
  ASSERT_TRUE(family.add(numbers({9, 3, 9, 18})));
  EXPECT_FALSE(family.is_single());
  EXPECT_EQ(family.dims(numbers({7, 3, 7, 14})), (Dims{7, 14}));
  EXPECT_EQ(family.dims(numbers({9, 3, 9, 18})), (Dims{9, 18}));
  EXPECT_TRUE(family.serves(numbers({100, 3, 100, 5}))) << "any numbers in the places that are read";
  EXPECT_FALSE(family.serves(numbers({100, 4, 100, 5}))) << "3 is part of the kernel";
  EXPECT_FALSE(family.serves(numbers({100, 3, 101, 5}))) << "both are read from one place";
  // For another function, the kernel reads more.
  ASSERT_TRUE(family.add(numbers({100, 4, 101, 5})));
  EXPECT_EQ(family.dims(numbers({7, 3, 7, 14})), (Dims{7, 3, 7, 14}));
  EXPECT_EQ(family.dims(numbers({1, 2, 3, 4})), (Dims{1, 2, 3, 4}));
}

TEST(KernelFamily, NumbersWithConstantDifferenceShareOnePlace) {
  KernelFamily family;
  family.add(numbers({100, 116, 7, 300}));
  ASSERT_TRUE(family.add(numbers({200, 216, 8, 600})));
  EXPECT_EQ(family.dims(numbers({100, 116, 7, 300})), (Dims{100, 7, 300}));
  EXPECT_EQ(family.dims(numbers({500, 516, 9, 1500})), (Dims{500, 9, 1500}));
  EXPECT_TRUE(family.serves(numbers({500, 516, 1, 2})));
  EXPECT_FALSE(family.serves(numbers({500, 515, 1, 2})));
  // For a function that differs in another number, the kernel reads both numbers.
  ASSERT_TRUE(family.add(numbers({500, 700, 9, 1500})));
  EXPECT_EQ(family.dims(numbers({100, 116, 7, 300})), (Dims{100, 116, 7, 300}));
  EXPECT_EQ(family.dims(numbers({500, 700, 9, 1500})), (Dims{500, 700, 9, 1500}));
}

TEST(KernelFamily, CoincidingSmallChangesAreReadSeparately) {
  KernelFamily family;
  family.add(numbers({3, 8, 3}));
  ASSERT_TRUE(family.add(numbers({4, 9, 4})));
  EXPECT_EQ(family.dims(numbers({3, 8, 3})), (Dims{3, 8}));
}

TEST(KernelFamily, ScratchBuffersHaveTheLargestSize) {
  KernelFamily family;
  family.add(numbers({7}, {64, 10}));
  EXPECT_FALSE(family.serves(numbers({7}, {32, 10}))) << "a kernel of its own has the sizes of its function";
  family.add(numbers({8}, {32, 20}));
  EXPECT_TRUE(family.serves(numbers({9}, {64, 20})));
  EXPECT_FALSE(family.serves(numbers({9}, {65, 20})));
}

TEST(KernelFamily, KernelIsDroppedWhenTheFamilyGrows) {
  KernelFamily family;
  family.add(numbers({7, 1}));
  family.add(numbers({8, 1}));
  family.kernel.emplace();
  ASSERT_TRUE(family.serves(numbers({9, 1})));
  ASSERT_TRUE(family.add(numbers({9, 2})));
  EXPECT_FALSE(family.kernel.has_value());
}

TEST(KernelFamily, NumberOfParametersIsLimited) {
  KernelFamily family;
  Dims low, high;
  for (int64_t i = 0; i < 100; ++i) low.push_back(i), high.push_back(1000 + 2 * i);
  ASSERT_TRUE(family.add(numbers(low)));
  EXPECT_FALSE(family.add(numbers(high)));
  EXPECT_TRUE(family.is_single());
}

TEST(KernelStore, UnusedKernelsAreEvictedAboveTheLimit) {
  KernelStore store(3, 1);
  const auto code = [](char name) { return Fingerprint{static_cast<uint64_t>(name), 1}; };
  const auto build = [&](const std::string& names) {
    for (const char name : names) {
      if (store.find(code(name)) == nullptr) store.add(code(name), {});
    }
    store.build_ended();
  };
  build("ab");
  build("a");
  build("a");
  EXPECT_EQ(store.size(), 2U) << "there is room";
  build("acd");
  EXPECT_EQ(store.size(), 3U) << "nothing has used b for long";
  EXPECT_EQ(store.find(code('b')), nullptr);
  EXPECT_NE(store.find(code('a')), nullptr);
}

TEST(KernelStore, UnusedFamiliesAreEvicted) {
  KernelStore store(0, 1);
  EXPECT_FALSE(store.shares());
  store.family("conv", {7, 7}).add(numbers({1}));
  store.build_ended();
  EXPECT_FALSE(store.family("conv", {7, 7}).serves(numbers({2})));
  store.build_ended();
  EXPECT_TRUE(store.family("conv", {7, 7}).serves(numbers({1}))) << "used by the build before";
  for (int i = 0; i < 3; ++i) store.build_ended();
  EXPECT_EQ(store.size(), 0U);
}

}  // namespace
}  // namespace kilter
