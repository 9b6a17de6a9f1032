// Models with tensors of the narrow types.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../base/scratch_folder.h"
#include "model_maker.h"
#include "onnx/save.h"
#include "ops/support/builder.h"
#include "ops/support/evaluate.h"

namespace kilter::onnx {
namespace {

constexpr int32_t kFloat = 1, kFloat8e4m3fn = 17, kUint4 = 21, kInt4 = 22, kFloat4e2m1 = 23, kUint2 = 25;

/// DequantizeLinear of an initializer [3], by a scale of 0.5.
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

std::vector<float> answer(const Graph& graph, const Tensor& x) {
  const std::vector<Tensor> results = evaluate(graph, {x});
  const auto values = results.at(0).span<float>();
  return {values.begin(), values.end()};
}
std::vector<float> answer(const ModelMaker& maker) { return answer(maker.parse()->bind({}), Tensor(DType::f32, {3})); }

TEST(NarrowTypes, PackedElementsBeginInTheLowestBits) {
  EXPECT_EQ(answer(dequantised(kInt4, "\x7f\x08")), (std::vector<float>{-0.5, 3.5, -4}));
  EXPECT_EQ(answer(dequantised(kUint4, "\x7f\x08")), (std::vector<float>{7.5, 3.5, 4}));
  EXPECT_EQ(answer(dequantised(kUint2, "\x1e")), (std::vector<float>{1, 1.5, 0.5}));
  EXPECT_EQ(answer(dequantised(kFloat4e2m1, "\x7f\x01")), (std::vector<float>{-3, 3, 0.25}));
  EXPECT_EQ(answer(dequantised(kFloat8e4m3fn, "\x38\xb8\x7e")), (std::vector<float>{0.5, -0.5, 224}));
}

TEST(NarrowTypes, TypedDataHoldPackedBytes) {
  ModelMaker maker = dequantised(kInt4, "");
  maker.graph().mutable_initializer(0)->add_int32_data(0x7f);
  maker.graph().mutable_initializer(0)->add_int32_data(0x08);
  EXPECT_EQ(answer(maker), (std::vector<float>{-0.5, 3.5, -4}));
}

TEST(NarrowTypes, DataMustFitTheShape) {
  EXPECT_EQ(error_of([] { dequantised(kInt4, "abc").parse(); }),
            "bad_model: m.onnx: initializer 'w' (i4[3]): expected 2 bytes of raw_data for its shape, got 3");
  EXPECT_EQ(error_of([] { dequantised(kFloat4e2m1, "").parse(); }),
            "bad_model: m.onnx: initializer 'w' (f4e2m1[3]): expected 2 values of int32_data, with 2 elements in each, "
            "for its shape, got 0");
}

TEST(NarrowTypes, SixBitFloatsAreRefused) {
  EXPECT_EQ(error_of([] { dequantised(27, "abc").parse(); }),
            "unsupported: m.onnx: initializer 'w' has element type float6e2m3 (27); Kilter reads all but complex "
            "numbers and floats of 6 bits; convert the tensor to another type");
}

TEST(NarrowTypes, WrittenFilesArePacked) {
  const ScratchFolder scratch;
  const auto file = scratch.path() / "m.onnx";
  Graph stored;
  GraphBuilder builder(stored, 21);
  Tensor w(DType::i4, {3});
  w.data<uint8_t>()[0] = 0xf, w.data<uint8_t>()[1] = 7, w.data<uint8_t>()[2] = 8;
  const ValueId x = builder.input("x", DType::i4, {3});
  stored.add_output(builder.add("Concat", {x, builder.constant(w, "w")}, {{"axis", int64_t{0}}}), "y");
  for (const int64_t inside : {int64_t{1} << 20, int64_t{0}}) {
    save_with_limit(stored, file, 21, inside);
    const auto model = Model::load(file);
    EXPECT_EQ(model->inputs().at(0).type, DType::i4);
    const Graph again = model->bind({});
    const Node& node = again.node(again.order().front());
    EXPECT_TRUE(again.value(node.inputs[1]).constant->same(w));
  }
}

/// MatMulNBits is built from weights of 8 bits, so it has integers of 4 bits only if the reader widens them.
TEST(NarrowTypes, ConstantIntegersInBlocksAreWidened) {
  ModelMaker maker(21);
  auto& weights = maker.initializer();
  weights.set_name("w");
  weights.set_data_type(kInt4);
  weights.add_dims(128), weights.add_dims(64);
  weights.set_raw_data(std::string(128 * 64 / 2, '\x7f'));
  auto& scale = maker.initializer();
  scale.set_name("s");
  scale.set_data_type(kFloat);
  scale.add_dims(4), scale.add_dims(64);
  scale.set_raw_data(std::string(4 * 64 * sizeof(float), '\0'));
  auto& node = maker.node("DequantizeLinear", {"w", "s"}, {"y"}, "dequantise");
  for (const auto& [key, value] : {std::pair("axis", 0), {"block_size", 32}})
    add_attribute(node, key, kIntAttr).set_i(value);
  maker.output("y", {128, 64});
  const Graph graph = maker.parse()->bind({});
  ASSERT_EQ(graph.order().size(), 1U);
  const Node& kept = graph.node(graph.order().front());
  EXPECT_EQ(kept.op->name, "DequantizeLinear");
  const Tensor& widened = *graph.value(kept.inputs[0]).constant;
  EXPECT_EQ(widened.dtype(), DType::i8);
  EXPECT_EQ(widened.as_int(0), -1);
  EXPECT_EQ(widened.as_int(1), 7);
}

TEST(NarrowTypes, ArithmeticOnNarrowTypesIsRefused) {
  ModelMaker maker(21);
  maker.input("x", {2}, kInt4);
  maker.node("Identity", {"x"}, {"same"}, "same");
  maker.node("Add", {"same", "same"}, {"y"}, "sum");
  maker.output("y", {2}, kInt4);
  EXPECT_EQ(error_of([&] { maker.parse()->bind({}); }),
            "bad_model: m.onnx: Add 'sum': input 0 has element type i4, expected one of f32, f64, f16, bf16, i8, i16, "
            "i32, i64, u8, u16, u32, u64");
}

}  // namespace
}  // namespace kilter::onnx
