// Values in different layouts: copying, comparing, and checking their padding.
#include "tune/run/value.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "base/iterate.h"
#include "base/random.h"

namespace kilter::tune {
namespace {

/// A layout like those that the compiler chooses, with blocks and a halo, `offset` elements into its buffer.
ValueLayout layout(const Shape& shape, int64_t block, std::array<int64_t, 4> halo = {}, int64_t offset = 0) {
  ValueLayout v;
  v.shape = shape, v.block = block, v.halo = halo;
  Shape dims = shape;
  if (shape.size() == 4) dims[2] += halo[0] + halo[1], dims[3] += halo[2] + halo[3];
  if (block > 1) {
    dims[1] = (dims[1] + block - 1) / block;
    dims.push_back(block);
  }
  v.strides = dense_strides(dims);
  v.offset = offset;
  if (shape.size() == 4) v.offset += halo[0] * v.strides[2] + halo[2] * v.strides[3];
  return v;
}

/// Calls f(i, at) for every element with its number and its position in the layout.
template <class F>
void for_each_element(const ValueLayout& v, F f) {
  kilter::for_each_element(v.shape, v.block, v.strides, v.offset,
                           [&](int64_t i, int64_t at) { f(i, static_cast<size_t>(at)); });
}

const std::byte* raw(const std::vector<float>& v) { return reinterpret_cast<const std::byte*>(v.data()); }
std::byte* raw(std::vector<float>& v) { return reinterpret_cast<std::byte*>(v.data()); }

TEST(Value, CopyWorksForEveryPairOfLayouts) {
  for (const Shape& shape :
       {Shape{2, 37, 5, 3}, Shape{1, 64, 1, 1}, Shape{3, 20}, Shape{1, 50, 7}, Shape{2, 5, 1, 9}}) {
    for (int64_t from_block : {1, 4, 8, 12, 16}) {
      for (int64_t to_block : {1, 4, 8, 12, 16, 32}) {
        const ValueLayout from = layout(shape, from_block, {1, 2, 1, 3}, 5);
        const ValueLayout to = layout(shape, to_block, {0, 1, 2, 0}, 2);
        std::vector<float> a(static_cast<size_t>(range_of(from).end), -1), b(static_cast<size_t>(range_of(to).end), -2);
        for_each_element(from, [&](int64_t i, size_t at) { a[at] = static_cast<float>(i); });
        copy_value(from, raw(a), to, raw(b));
        size_t last = 0;
        for_each_element(to, [&](int64_t i, size_t at) {
          ASSERT_EQ(b[at], static_cast<float>(i)) << text(shape) << from_block << to_block;
          last = at;
        });
        EXPECT_EQ(std::count_if(b.begin(), b.end(), [](float x) { return x >= 0; }), elems(shape));
        const ValueDifference same = compare_values(from, raw(a), to, raw(b));
        EXPECT_EQ(same.most, 0);
        EXPECT_EQ(same.unlike, 0);
        b[last] += 3;
        EXPECT_EQ(compare_values(from, raw(a), to, raw(b)).most, 3);
      }
    }
  }
}

TEST(Value, PackedLayoutIsCompact) {
  const ValueLayout v = layout({2, 37, 5, 3}, 16, {1, 1, 1, 1}, 7);
  EXPECT_EQ(packed_elems(v), 2 * 48 * 5 * 3);
  EXPECT_EQ(range_of(packed(v)).end, packed_elems(v));
  EXPECT_EQ(packed_elems(layout({2, 37}, 1)), 74);
}

TEST(Value, NotANumberAndInfinity) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  const ValueLayout v = layout({8}, 1);
  const std::vector<float> want = {1, nan, inf, -inf, 2, 3, nan, 5};
  EXPECT_EQ(compare_values(v, raw(want), v, raw(want)).unlike, 0);
  std::vector<float> got = {1.5, nan, inf, -inf, 2, 3, nan, 5};
  EXPECT_EQ(compare_values(v, raw(want), v, raw(got)).unlike, 0);
  EXPECT_EQ(compare_values(v, raw(want), v, raw(got)).most, 0.5);
  got = {1, 0, -inf, nan, inf, 3, nan, nan};
  const ValueDifference d = compare_values(v, raw(want), v, raw(got));
  EXPECT_EQ(d.unlike, 5);
  EXPECT_EQ(d.most, 0);
  EXPECT_EQ(largest_magnitude(v, raw(want)), 5);
}

TEST(Value, IntegersAndHalves) {
  ValueLayout v = layout({4}, 1);
  v.type = DType::i64;
  const std::vector<int64_t> want = {1, -9, 3, 4}, got = {1, -9, 3, 6};
  const auto bytes = [](const auto& values) { return reinterpret_cast<const std::byte*>(values.data()); };
  EXPECT_EQ(compare_values(v, bytes(want), v, bytes(got)).most, 2);
  EXPECT_EQ(largest_magnitude(v, bytes(want)), 9);
  v.type = DType::f16;
  const std::vector<Half> a = {Half(1.0F), Half(2.0F), Half(-3.0F), Half(0.5F)};
  const std::vector<Half> b = {Half(1.0F), Half(2.5F), Half(-3.0F), Half(0.5F)};
  EXPECT_EQ(compare_values(v, bytes(a), v, bytes(b)).most, 0.5);
}

TEST(Value, PaddingMustBeZero) {
  const ValueLayout v = layout({1, 20, 2, 3}, 16, {1, 1, 1, 2});
  std::vector<float> data(static_cast<size_t>(range_of(v).end), 0);
  for_each_element(v, [&](int64_t, size_t at) { data[at] = 7; });
  EXPECT_EQ(padding_damage(v, raw(data)), "");
  const int64_t lane = v.offset + v.strides[1] + v.strides[2] + 2 * v.strides[3] + 5;
  data[static_cast<size_t>(lane)] = 1;
  EXPECT_EQ(padding_damage(v, raw(data)), "unused lane 5 at [1, 2] is 1, expected 0");
  data[static_cast<size_t>(lane)] = 0;
  data[static_cast<size_t>(v.offset + 2 * v.strides[2] + 4 * v.strides[3] + 3)] = 2;
  EXPECT_EQ(padding_damage(v, raw(data)), "halo at [3, 2, 4] is 2, expected 0");
  data[static_cast<size_t>(v.offset + 2 * v.strides[2] + 4 * v.strides[3] + 3)] = 0;
  data[static_cast<size_t>(v.offset - v.strides[3])] = 4;
  EXPECT_EQ(padding_damage(v, raw(data)), "halo at [0, 0, -1] is 4, expected 0");
}

TEST(Value, RangeIncludesHaloAndRefusesInvalidLayouts) {
  const ValueLayout v = layout({1, 16, 2, 3}, 16, {1, 1, 1, 1});
  EXPECT_EQ(range_of(v).end, 4 * 5 * 16);
  ValueLayout bad = v;
  bad.offset = 0;
  EXPECT_THROW(range_of(bad), Error);
  bad = v;
  bad.strides.pop_back();
  try {
    (void)range_of(bad);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.message(), "a value of shape 1x16x2x3 in blocks of 16 has 4 strides; expected 5");
  }
}

}  // namespace
}  // namespace kilter::tune
