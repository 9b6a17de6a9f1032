// The index loops, broadcasting kernels and conversions that the operator files use.
#include "ops/support/iterate.h"

#include <gtest/gtest.h>

#include <limits>

#include "ops/support/elementwise.h"

namespace kilter {
namespace {

TEST(Iterate, BroadcastStrides) {
  EXPECT_EQ(broadcast_strides({3, 1}, {2, 3, 4}), (Shape{0, 1, 0}));
  EXPECT_EQ(broadcast_strides({}, {2, 3}), (Shape{0, 0}));
  EXPECT_EQ(broadcast_strides({2, 3}, {2, 3}), (Shape{3, 1}));
  EXPECT_THROW(broadcast_strides({2}, {3}), Error);
  EXPECT_THROW(broadcast_strides({1, 1}, {1}), Error);
}

TEST(Iterate, EveryIndexInRowMajorOrder) {
  std::vector<std::vector<int64_t>> seen;
  const auto keep = [&](std::span<const int64_t> index) { seen.emplace_back(index.begin(), index.end()); };
  for_each_index({2, 2}, keep);
  EXPECT_EQ(seen, (std::vector<std::vector<int64_t>>{{0, 0}, {0, 1}, {1, 0}, {1, 1}}));
  seen.clear();
  for_each_index({}, keep);
  EXPECT_EQ(seen.size(), 1U);
  for_each_index({3, 0}, keep);
  EXPECT_EQ(seen.size(), 1U);
}

TEST(Iterate, OffsetsFollowTheStrides) {
  std::vector<int64_t> a;
  std::vector<int64_t> b;
  for_each_offset<2>({2, 3}, {Shape{1, 2}, Shape{-3, 0}},
                     [&](const std::array<int64_t, 2>& at) {
                       a.push_back(at[0]);
                       b.push_back(at[1]);
                     },
                     {10, 3});
  EXPECT_EQ(a, (std::vector<int64_t>{10, 12, 14, 11, 13, 15}));
  EXPECT_EQ(b, (std::vector<int64_t>{3, 3, 3, 0, 0, 0}));
}

TEST(Iterate, StridedCopiesOfEveryElementSize) {
  for (const DType type : {DType::i8, DType::f16, DType::f32, DType::i64, DType::boolean}) {
    Tensor from(type, {2, 3});
    for (int64_t i = 0; i < from.bytes(); ++i) from.raw()[i] = static_cast<std::byte>(i % 2 + 0);
    Tensor to(type, {3, 2});
    copy_strided(from, 0, {1, 3}, to, 0, {2, 1}, {3, 2});
    Tensor back(type, {2, 3});
    for (int64_t r = 0; r < 3; ++r) {
      for (int64_t c = 0; c < 2; ++c) copy_element(to, r * 2 + c, back, c * 3 + r);
    }
    EXPECT_TRUE(back.same(from)) << name(type);
  }
  Tensor words(DType::string, {2});
  words.strings() = {"a", "b"};
  Tensor reversed(DType::string, {2});
  copy_strided(words, 1, {-1}, reversed, 0, {1}, {2});
  EXPECT_EQ(reversed.strings(), (std::vector<std::string>{"b", "a"}));
}

TEST(Iterate, DoublesSaturateIntoIntegers) {
  const Tensor t(DType::i8, {5});
  store_doubles(t, std::vector<double>{1000, -1000, 2.9, -2.9, std::numeric_limits<double>::quiet_NaN()});
  EXPECT_EQ(t.ints(), (std::vector<int64_t>{127, -128, 2, -2, 0}));
  const Tensor u(DType::u64, {2});
  store_doubles(u, std::vector<double>{-1, 1e30});
  EXPECT_EQ(u.data<uint64_t>()[0], 0U);
  EXPECT_EQ(u.data<uint64_t>()[1], std::numeric_limits<uint64_t>::max());
  const Tensor h(DType::f16, {1});
  fill(h, 1.5);
  EXPECT_EQ(load_doubles(h), std::vector<double>{1.5});
}

TEST(Elementwise, IntegersWrap) {
  EXPECT_EQ(wrap_add<int8_t>(127, 1), -128);
  EXPECT_EQ(wrap_add<int64_t>(std::numeric_limits<int64_t>::max(), 1), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(wrap_sub<uint16_t>(0, 1), 65535);
  EXPECT_EQ(wrap_mul<uint16_t>(65535, 65535), 1);
  EXPECT_EQ(wrap_mul<int32_t>(std::numeric_limits<int32_t>::min(), -1), std::numeric_limits<int32_t>::min());
  EXPECT_EQ(wrap_neg<int32_t>(std::numeric_limits<int32_t>::min()), std::numeric_limits<int32_t>::min());
  EXPECT_EQ(wrap_add<float>(1.5F, 2), 3.5F);
}

TEST(Elementwise, TypesOutsideTheListAreNamed) {
  Node node;
  node.name = "n";
  int visited = 0;
  visit_types(Types<float, int8_t>{}, node, DType::i8, [&]<class T>() { visited = static_cast<int>(sizeof(T)); });
  EXPECT_EQ(visited, 1);
  try {
    visit_types(Types<float, int8_t>{}, node, DType::f64, [&]<class T>() {});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unsupported);
    EXPECT_EQ(error.message(), "? 'n': element type f64 is not supported; legal values are f32, i8");
  }
}

TEST(Elementwise, BroadcastKernels) {
  const Tensor a = Tensor::of<int32_t>({2, 1}, {10, 20});
  const Tensor b = Tensor::of<int32_t>({3}, {1, 2, 3});
  const Tensor out(DType::i32, {2, 3});
  broadcast_binary<int32_t, int32_t, int32_t>(a, b, out, [](auto x, auto y) { return x + y; });
  EXPECT_EQ(out.ints(), (std::vector<int64_t>{11, 12, 13, 21, 22, 23}));
  const Tensor less(DType::boolean, {2, 3});
  broadcast_ternary<int32_t, int32_t, int32_t, bool>(a, b, Tensor::scalar<int32_t>(22), less,
                                                     [](auto x, auto y, auto z) { return x + y < z; });
  EXPECT_EQ(less.ints(), (std::vector<int64_t>{1, 1, 1, 1, 0, 0}));
}

TEST(Elementwise, VariadicKernelsFoldFromTheLeft) {
  Node node;
  ReferenceContext ctx{node,
                       {Tensor::of<float>({2}, {1, 2}), Tensor::scalar(3.0F), Tensor::of<float>({2, 1}, {10, 20})},
                       {Tensor(DType::f32, {2, 2})}};
  reference_variadic<Floats>(
      ctx, [](auto x, auto y) { return x + y; }, [](auto x, int64_t n) { return x / static_cast<decltype(x)>(n); });
  EXPECT_TRUE(ctx.out().same(Tensor::of<float>({2, 2}, {14.0F / 3, 15.0F / 3, 24.0F / 3, 25.0F / 3})));
}

}  // namespace
}  // namespace kilter
