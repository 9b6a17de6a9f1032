// Models with tensors of 4-bit integers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model_maker.h"
#include "ops/support/evaluate.h"

namespace kilter::onnx {
namespace {

using testing::HasSubstr;

constexpr int32_t kFloat = 1, kUint4 = 21, kInt4 = 22;

/// DequantizeLinear of an initializer [3] of 4-bit integers, by a scale of 0.5.
ModelMaker dequantised(int32_t type, const std::string& raw) {
  ModelMaker maker(21);
  auto& weights = maker.initializer();
  weights.set_name("w");
  weights.set_data_type(type);
  weights.add_dims(3);
  weights.set_raw_data(raw);
  auto& scale = maker.initializer();
  scale.set_name("s");
  scale.set_data_type(kFloat);
  scale.add_float_data(0.5F);
  maker.input("x", {3});
  maker.node("DequantizeLinear", {"w", "s"}, {"d"}, "dequantise");
  maker.node("Add", {"x", "d"}, {"y"}, "add");
  maker.output("y", {3});
  return maker;
}

std::vector<float> answer(const ModelMaker& maker, const Tensor& x) {
  const std::vector<Tensor> results = evaluate(maker.parse()->bind({}), {x});
  const auto values = results.at(0).span<float>();
  return {values.begin(), values.end()};
}

TEST(FourBits, TwoElementsInAByteTheFirstInTheLowerHalf) {
  const Tensor zeros(DType::f32, {3});
  EXPECT_EQ(answer(dequantised(kInt4, "\x7f\x08"), zeros), (std::vector<float>{-0.5, 3.5, -4}));
  EXPECT_EQ(answer(dequantised(kUint4, "\x7f\x08"), zeros), (std::vector<float>{7.5, 3.5, 4}));
}

TEST(FourBits, TypedDataHaveTwoElementsInANumber) {
  ModelMaker maker = dequantised(kInt4, "");
  maker.graph().mutable_initializer(0)->add_int32_data(0x7f);
  maker.graph().mutable_initializer(0)->add_int32_data(0x08);
  EXPECT_EQ(answer(maker, Tensor(DType::f32, {3})), (std::vector<float>{-0.5, 3.5, -4}));
}

TEST(FourBits, DataMustFitTheShape) {
  EXPECT_EQ(
      error_of([] { dequantised(kInt4, "abc").parse(); }),
      "bad_model: m.onnx: initializer 'w' (int4 (22)): expected 2 bytes with two elements each for its shape, got "
      "3");
}

TEST(FourBits, InputsAreBytes) {
  ModelMaker maker(21);
  maker.input("x", {2}, kInt4);
  maker.node("Transpose", {"x"}, {"t"}, "transpose");
  maker.node("Cast", {"t"}, {"y"}, "cast").add_attribute()->CopyFrom([] {
    pb::AttributeProto to;
    to.set_name("to"), to.set_type(kIntAttr), to.set_i(kFloat);
    return to;
  }());
  maker.output("y", {2});
  EXPECT_EQ(maker.parse()->inputs().at(0).type, DType::i8);
  EXPECT_EQ(answer(maker, Tensor::of<int8_t>({2}, {-8, 7})), (std::vector<float>{-8, 7}));
}

TEST(FourBits, NodesThatDependOnTheTypeAreRefused) {
  ModelMaker maker(21);
  maker.input("x", {2}, kInt4);
  maker.node("Identity", {"x"}, {"same"}, "same");
  maker.node("Add", {"same", "same"}, {"y"}, "sum");
  maker.output("y", {2}, kInt4);
  EXPECT_EQ(
      error_of([&] { maker.parse()->bind({}); }),
      "unsupported: m.onnx: Add 'sum': reads 4-bit integers; Kilter reads them in DequantizeLinear, Cast, CastLike "
      "and nodes that only move elements; convert the tensor to 8 bits");
}

}  // namespace
}  // namespace kilter::onnx
