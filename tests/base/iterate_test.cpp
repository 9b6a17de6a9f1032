#include "base/iterate.h"

#include <gtest/gtest.h>

namespace kilter {
namespace {

/// The positions of the elements in row-major order.
Shape positions(const Shape& shape, int64_t block, const Shape& strides, int64_t offset) {
  Shape all;
  for_each_element(shape, block, strides, offset, [&](int64_t i, int64_t at) {
    EXPECT_EQ(i, std::ssize(all));
    all.push_back(at);
  });
  return all;
}

TEST(ForEachElement, FollowsStrides) {
  EXPECT_EQ(positions({2, 3}, 1, {10, 2}, 5), (Shape{5, 7, 9, 15, 17, 19}));
  EXPECT_EQ(positions({}, 1, {}, 4), (Shape{4}));
  EXPECT_EQ(positions({2, 0}, 1, {1, 1}, 0), Shape{});
}

TEST(ForEachElement, SplitsTheChannelsIntoBlocks) {
  // Five channels in blocks of four, two pixels: [block][pixel][channel of the block].
  EXPECT_EQ(positions({1, 5, 2}, 4, {16, 8, 4, 1}, 0), (Shape{0, 4, 1, 5, 2, 6, 3, 7, 8, 12}));
}

}  // namespace
}  // namespace kilter
