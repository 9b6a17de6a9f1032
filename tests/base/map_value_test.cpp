#include "base/map_value.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace kilter {
namespace {

using testing::ElementsAre;

Tensor strings(std::vector<std::string> values) {
  Tensor tensor(DType::string, {static_cast<int64_t>(values.size())});
  tensor.strings() = std::move(values);
  return tensor;
}

std::string error_of(const Tensor& keys, const Tensor& values) {
  try {
    map_value(keys, values, "input 'm'");
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::bad_input);
    return e.message();
  }
  return "no error";
}

TEST(MapValue, KeysAscend) {
  const AnyValue numbers = map_value(Tensor::of<int64_t>({3}, {7, -2, 5}), Tensor::of<float>({3}, {1, 2, 3}));
  EXPECT_THAT(map_keys(numbers).ints(), ElementsAre(-2, 5, 7));
  EXPECT_THAT(map_values(numbers).span<float>(), ElementsAre(2, 3, 1));
  const AnyValue texts = map_value(strings({"b", "a"}), strings({"1", "2"}));
  EXPECT_THAT(map_keys(texts).strings(), ElementsAre("a", "b"));
  EXPECT_THAT(map_values(texts).strings(), ElementsAre("2", "1"));
}

TEST(MapValue, MapsAndListsAreDistinguished) {
  const Tensor keys = Tensor::of<int64_t>({2}, {1, 2}), values = Tensor::of<float>({2}, {1, 2});
  const AnyValue map = map_value(keys, values);
  EXPECT_TRUE(is_map(map));
  EXPECT_FALSE(is_list(map));
  for (const AnyValue& other : {AnyValue(), AnyValue(keys), AnyValue::sequence({keys, values, values}),
                                AnyValue::sequence({}), AnyValue::sequence({map, map, map})})
    EXPECT_FALSE(is_map(other)) << text(other);
  EXPECT_TRUE(is_list(AnyValue::sequence({map, map, map})));
}

TEST(MapValue, Text) {
  const AnyValue map = map_value(Tensor::of<int64_t>({2}, {1, 2}), Tensor::of<float>({2}, {0.5F, 2}));
  EXPECT_EQ(text(map), "map of 2 from i64 to f32");
  EXPECT_EQ(text(AnyValue::sequence({map})), "sequence of 1 (map of 2 from i64 to f32)");
}

TEST(MapValue, InvalidKeysAndValuesAreErrors) {
  const Tensor two = Tensor::of<int64_t>({2}, {4, 4});
  EXPECT_EQ(error_of(two, two), "input 'm' has the key 4 twice");
  EXPECT_EQ(error_of(strings({"a", "b", "a"}), Tensor::of<float>({3}, {1, 2, 3})), "input 'm' has the key 'a' twice");
  EXPECT_EQ(
      error_of(two, Tensor::of<float>({1}, {1})),
      "input 'm' has keys i64[2] and values f32[1]; expected one dimension of the same size, and keys of i64 or str");
  EXPECT_NE(error_of(Tensor::of<float>({1}, {1}), Tensor::of<float>({1}, {1})), "no error");
  EXPECT_NE(error_of(Tensor::scalar(int64_t{1}), Tensor::scalar(1.0F)), "no error");
}

}  // namespace
}  // namespace kilter
