#include "base/tensor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>

#include "base/error.h"

namespace kilter {
namespace {

std::string elems_error(const Shape& shape) {
  try {
    elems(shape);
  } catch (const Error& error) {
    return error.message();
  }
  return "no error";
}

TEST(Elems, CountsElements) {
  EXPECT_EQ(elems({}), 1);
  EXPECT_EQ(elems({2, 3, 5}), 30);
  EXPECT_EQ(elems({2, 0, 5}), 0);
  EXPECT_EQ(elems({int64_t{1} << 40}), int64_t{1} << 40);
}

TEST(Elems, RefusesNegativeAndTooLargeShapes) {
  EXPECT_EQ(elems_error({2, -1}), "shape 2x-1 has a negative dimension; every dimension must be 0 or more");
  EXPECT_EQ(elems_error({1 << 20, 1 << 21}),
            "shape 1048576x2097152 has more than 2^40 elements; the limit is 2^40 per tensor");
}

TEST(Elems, EmptyShapesAreCheckedToo) {
  EXPECT_EQ(elems_error({0, -1}), "shape 0x-1 has a negative dimension; every dimension must be 0 or more");
  const int64_t huge = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(elems_error({0, huge, 2}),
            "shape 0x9223372036854775807x2 has more than 2^40 elements, not counting "
            "dimensions of 0; the limit is 2^40 per tensor");
}

TEST(Tensor, FloatsSaturateToIntegers) {
  const Tensor t = Tensor::of<float>({5}, std::vector<float>{-2.5F, NAN, INFINITY, -INFINITY, 1e30F});
  EXPECT_EQ(t.ints(), (std::vector<int64_t>{-2, 0, INT64_MAX, INT64_MIN, INT64_MAX}));
}

}  // namespace
}  // namespace kilter
