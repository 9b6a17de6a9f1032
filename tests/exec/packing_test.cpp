// Recipes of packed constants: what they pack, and which of them are refused.
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <random>

#include "packing/recipe.h"

namespace kilter {
namespace {

/// The packed constant, computed element by element from the definition.
std::vector<float> expected(const Gather& gather, const std::vector<float>& source) {
  std::vector<float> made;
  std::vector<int64_t> at(gather.loops.size(), 0);
  for (int64_t n = 0; n < gather.elems(); ++n) {
    int64_t rest = n;
    for (size_t l = gather.loops.size(); l-- > 0;) {
      at[l] = rest % gather.loops[l].count;
      rest /= gather.loops[l].count;
    }
    bool inside = true;
    int64_t from = 0;
    for (size_t a = 0; a < gather.axes.size(); ++a) {
      int64_t index = gather.axes[a].first;
      for (size_t l = 0; l < gather.loops.size(); ++l) {
        if (gather.loops[l].axis == static_cast<int32_t>(a)) index += at[l] * gather.loops[l].step;
      }
      inside = inside && index >= 0 && index < gather.axes[a].extent;
      from += index * gather.axes[a].stride;
    }
    made.push_back(inside ? source[static_cast<size_t>(from)] : 0.0F);
  }
  return made;
}

std::vector<float> numbers(int64_t count) {
  std::vector<float> all(static_cast<size_t>(count));
  std::iota(all.begin(), all.end(), 1.0F);
  return all;
}

template <class T = float>
std::vector<T> packed(const Gather& gather, const std::vector<float>& source, DType to = DType::f32) {
  std::vector<T> made(static_cast<size_t>(gather.elems()));
  pack(Recipe(gather), DType::f32, reinterpret_cast<const std::byte*>(source.data()), to,
       reinterpret_cast<std::byte*>(made.data()));
  return made;
}

/// A random gather of one to five loops over one to three axes.
Gather random_gather(std::mt19937& random) {
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
  Gather made;
  int64_t stride = 1;
  for (int64_t a = 1 + below(3); a > 0; --a) {
    const int64_t extent = 1 + below(7);
    made.axes.push_back({extent, stride, below(5) - 2});
    stride *= extent;
  }
  for (int64_t l = 1 + below(5); l > 0; --l)
    made.loops.push_back({1 + below(6), static_cast<int32_t>(below(std::ssize(made.axes))), below(4)});
  return made;
}

TEST(Packing, GathersMatchTheDefinition) {
  std::mt19937 random(1);
  for (int i = 0; i < 3000; ++i) {
    const Gather gather = random_gather(random);
    int64_t elems = 1;
    for (const auto& axis : gather.axes) elems *= axis.extent;
    const std::vector<float> source = numbers(elems);
    ASSERT_EQ(fault_of(gather, elems), std::nullopt);
    ASSERT_EQ(packed(gather, source), expected(gather, source)) << i;
  }
}

TEST(Packing, ConvertsElements) {
  const Gather panels{{{5, 1}}, {{3, 0, 2}, {2, 0, 1}}};
  const std::vector<float> source = {1, -2, 3.5F, 4, 100};
  const auto bf16 = packed<BFloat16>(panels, source, DType::bf16);
  const auto half = packed<Half>(panels, source, DType::f16);
  const auto bytes = packed<int8_t>(panels, source, DType::i8);
  EXPECT_EQ(static_cast<float>(bf16[2]), 3.5F);
  EXPECT_EQ(static_cast<float>(half[4]), 100.0F);
  EXPECT_EQ(bytes, (std::vector<int8_t>{1, -2, 3, 4, 100, 0}));
  // Packing elements that were converted before gives the same result.
  const Tensor early = as_packed(Tensor::of<float>({5}, std::span<const float>(source)), DType::bf16);
  std::vector<BFloat16> again(6);
  pack(Recipe(panels), DType::bf16, early.raw(), DType::bf16, reinterpret_cast<std::byte*>(again.data()));
  EXPECT_EQ(std::memcmp(again.data(), bf16.data(), 12), 0);
}

TEST(Packing, RefusesGathersOutsideTheirSource) {
  const Gather sound{{{4, 2}, {2, 1}}, {{4, 0, 1}, {2, 1, 1}}};
  EXPECT_EQ(fault_of(sound, 8), std::nullopt);
  EXPECT_EQ(fault_of(sound, 7), "an axis of extent 2 and stride 1 from 0 on, in a source of 7 elements");
  const auto with = [&](auto change) {
    Gather made = sound;
    change(made);
    return fault_of(made, 8).value_or("nothing");
  };
  constexpr int64_t kHuge = INT64_MAX / 2;
  EXPECT_EQ(with([](Gather& g) { g.axes[0].extent = 5; }),
            "an axis of extent 5 and stride 2 from 0 on, in a source of 8 elements");
  EXPECT_EQ(with([](Gather& g) { g.axes[0].stride = -1; }),
            "an axis of extent 4 and stride -1 from 0 on, in a source of 8 elements");
  EXPECT_EQ(with([](Gather& g) { g.axes[1].extent = 0; }),
            "an axis of extent 0 and stride 1 from 0 on, in a source of 8 elements");
  EXPECT_NE(with([](Gather& g) { g.axes[1].first = -kHuge; }), "nothing");
  EXPECT_NE(with([](Gather& g) { g.axes[0] = {1, kHuge, 1}; }), "nothing");
  EXPECT_NE(with([](Gather& g) { g.axes[0] = {1, int64_t{1} << 30, int64_t{1} << 30}; }), "nothing");
  EXPECT_EQ(with([](Gather& g) { g.loops[0].axis = 2; }), "a loop of 4 along axis 2 of 2 by 1");
  EXPECT_EQ(with([](Gather& g) { g.loops[0].step = -1; }), "a loop of 4 along axis 0 of 2 by -1");
  EXPECT_EQ(with([](Gather& g) { g.loops[1].count = 0; }), "a loop of 0 along axis 1 of 2 by 1");
  EXPECT_NE(with([](Gather& g) { g.loops[1].count = kHuge; }), "nothing");
  EXPECT_EQ(with([](Gather& g) { g.loops.clear(); }), "2 axes and 0 loops; expected at most 8 and 1 to 12");
}

TEST(Packing, TransformsFilters) {
  const WinogradFilters filters{3, 2, 3, 3, 2, 4, 2};
  ASSERT_EQ(fault_of(filters, 54), std::nullopt);
  const std::vector<float> source = numbers(54);
  std::vector<float> made(static_cast<size_t>(filters.elems()));
  ASSERT_EQ(std::ssize(made), 4 * 16 * 2);
  pack(filters, source.data(), made.data());
  FilterTransform one(filters.down(), filters.across());
  for (int64_t out = 0; out < 3; ++out) {
    for (int64_t in = 0; in < 2; ++in) {
      const std::vector<double> u = one(source.data() + (out * 2 + in) * 9);
      for (int64_t place = 0; place < 16; ++place)
        EXPECT_EQ(made[static_cast<size_t>((place * 2 + in) * 4 + out)],
                  static_cast<float>(u[static_cast<size_t>(place)]));
    }
  }
  EXPECT_EQ(made[3], 0);  // the fourth channel does not exist
  WinogradFilters other = filters;
  other.kernel_w = 5;
  EXPECT_EQ(fault_of(other, 90), "no transform of 3x5 filters for 2 outputs");
  EXPECT_EQ(fault_of(filters, 53), "filters of 54 values in a source of 53");
  other = filters, other.padded_in = 1;
  EXPECT_EQ(fault_of(other, 54), "2 to 3 channels in groups of 4, padded to 1");
  EXPECT_EQ(fault_of(Recipe(filters), DType::bf16, 54), "filters of type bf16; expected f32");
}

}  // namespace
}  // namespace kilter
