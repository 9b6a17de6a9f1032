// Maps in programs: ZipMap, DictVectorizer, CastMap, inputs and outputs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "../onnx/model_maker.h"
#include "base/map_value.h"
#include "compile/memory_model.h"
#include "compile/session.h"

namespace kilter {
namespace {

using onnx::add_attribute;
using onnx::error_of;
using onnx::ModelMaker;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr int32_t kFloat = 1, kInt64 = 7, kString = 8;

using Inputs = std::map<std::string, AnyValue>;

std::vector<AnyValue> run(const ModelMaker& maker, const Inputs& inputs) {
  const MemoryModel model(maker.parse());
  Session::Options options;
  options.compile.target = parse_target("native");
  options.threads = 1;
  return Session::open(model.name(), options)->run_values(inputs);
}

std::string run_error(const ModelMaker& maker, const Inputs& inputs) {
  return error_of([&] { run(maker, inputs); });
}

Tensor strings(std::vector<std::string> values) {
  Tensor tensor(DType::string, {static_cast<int64_t>(values.size())});
  tensor.strings() = std::move(values);
  return tensor;
}

void set_map_type(onnx::pb::TypeProto& type, int32_t key, int32_t value) {
  type.mutable_map_type()->set_key_type(key);
  type.mutable_map_type()->mutable_value_type()->mutable_tensor_type()->set_elem_type(value);
}

/// y = OP(x) of ai.onnx.ml, where x is a map.
ModelMaker map_model(const std::string& op, int32_t key, int32_t value, int32_t result) {
  ModelMaker maker;
  maker.import("ai.onnx.ml", 1);
  auto& input = *maker.graph().add_input();
  input.set_name("x");
  set_map_type(*input.mutable_type(), key, value);
  maker.node(op, {"x"}, {"y"}, "node").set_domain("ai.onnx.ml");
  maker.output("y", {"n", "m"}, result);
  return maker;
}

onnx::pb::NodeProto& node_of(ModelMaker& maker) { return *maker.graph().mutable_node(0); }

ModelMaker zip_model(const onnx::TestDims& dims) {
  ModelMaker maker;
  maker.import("ai.onnx.ml", 1);
  maker.input("x", dims);
  maker.node("ZipMap", {"x"}, {"y"}, "zip").set_domain("ai.onnx.ml");
  auto& output = *maker.graph().add_output();
  output.set_name("y");
  set_map_type(*output.mutable_type()->mutable_sequence_type()->mutable_elem_type(), kInt64, kFloat);
  return maker;
}

ModelMaker zip_of_numbers(const onnx::TestDims& dims = {"n", 3}) {
  ModelMaker maker = zip_model(dims);
  auto& labels = add_attribute(node_of(maker), "classlabels_int64s", onnx::kIntsAttr);
  for (const int64_t label : {7, 2, 9}) labels.add_ints(label);
  return maker;
}

TEST(ZipMap, OneMapForEachRow) {
  const Tensor x = Tensor::of<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  const AnyValue y = run(zip_of_numbers(), {{"x", x}})[0];
  ASSERT_EQ(text(y), "sequence of 2 (map of 3 from i64 to f32, map of 3 from i64 to f32)");
  EXPECT_THAT(map_keys(y.elements()[1]).ints(), ElementsAre(2, 7, 9));
  EXPECT_THAT(map_values(y.elements()[1]).span<float>(), ElementsAre(5, 4, 6));
  EXPECT_TRUE(run(zip_of_numbers(), {{"x", Tensor(DType::f32, {0, 3})}})[0].elements().empty());
  EXPECT_EQ(run(zip_of_numbers({3}), {{"x", Tensor(DType::f32, {3})}})[0].elements().size(), 1U);
}

TEST(ZipMap, LabelsThatAreStrings) {
  ModelMaker maker = zip_model({"n", 3});
  auto& labels = add_attribute(node_of(maker), "classlabels_strings", onnx::kStringsAttr);
  for (const char* label : {"b", "a", "b"}) labels.add_strings(label);
  const AnyValue y = run(maker, {{"x", Tensor::of<float>({1, 3}, {1, 2, 3})}})[0];
  EXPECT_THAT(map_keys(y.elements()[0]).strings(), ElementsAre("a", "b"));
  EXPECT_THAT(map_values(y.elements()[0]).span<float>(), ElementsAre(2, 3)) << "the last of equal labels counts";
}

TEST(ZipMap, Errors) {
  EXPECT_EQ(run_error(zip_of_numbers({"n", "m"}), {{"x", Tensor(DType::f32, {1, 2})}}),
            "bad_model: ZipMap 'zip': expected 2 class labels, one for each column of the input, got 3");
  EXPECT_THAT(run_error(zip_of_numbers({"n", "m", 3}), {{"x", Tensor(DType::f32, {1, 2, 3})}}),
              HasSubstr("input has shape 1x2x3, expected [rows, features] or [features]"));
  ModelMaker both = zip_of_numbers();
  add_attribute(node_of(both), "classlabels_strings", onnx::kStringsAttr).add_strings("a");
  EXPECT_THAT(run_error(both, {{"x", Tensor(DType::f32, {1, 3})}}), HasSubstr("are both set; expected one of them"));
}

TEST(DictVectorizer, ValuesInTheOrderOfTheVocabulary) {
  ModelMaker maker = map_model("DictVectorizer", kString, kFloat, kFloat);
  auto& words = add_attribute(node_of(maker), "string_vocabulary", onnx::kStringsAttr);
  for (const char* word : {"c", "a", "z", "a"}) words.add_strings(word);
  const AnyValue x = map_value(strings({"a", "b", "c"}), Tensor::of<float>({3}, {1, 2, 3}));
  const Tensor y = run(maker, {{"x", x}})[0].tensor();
  EXPECT_EQ(y.shape(), (Shape{1, 4}));
  EXPECT_THAT(y.span<float>(), ElementsAre(3, 1, 0, 1));
  EXPECT_EQ(run_error(maker, {{"x", map_value(Tensor::of<int64_t>({1}, {1}), Tensor::of<float>({1}, {1}))}}),
            "bad_input: m.onnx: input 'x' must be map from str to f32, got map of 1 from i64 to f32");
}

TEST(DictVectorizer, KeysThatAreNumbers) {
  ModelMaker maker = map_model("DictVectorizer", kInt64, kString, kString);
  auto& numbers = add_attribute(node_of(maker), "int64_vocabulary", onnx::kIntsAttr);
  numbers.add_ints(5), numbers.add_ints(-1);
  EXPECT_THAT(run(maker, {{"x", map_value(Tensor::of<int64_t>({1}, {-1}), strings({"q"}))}})[0].tensor().strings(),
              ElementsAre("", "q"));
  ModelMaker none = map_model("DictVectorizer", kInt64, kFloat, kFloat);
  const AnyValue x = map_value(Tensor::of<int64_t>({1}, {1}), Tensor::of<float>({1}, {1}));
  EXPECT_EQ(run_error(none, {{"x", x}}),
            "bad_model: DictVectorizer 'node': has no vocabulary, expected int64_vocabulary or string_vocabulary");
  ModelMaker other = map_model("DictVectorizer", kInt64, kFloat, kFloat);
  add_attribute(node_of(other), "string_vocabulary", onnx::kStringsAttr).add_strings("a");
  EXPECT_EQ(run_error(other, {{"x", x}}),
            "bad_model: DictVectorizer 'node': input 0 is map of 1 from i64 to f32, expected a map with keys of str");
}

/// CastMap of a map with keys of i64.
ModelMaker cast_model(int32_t value, const std::string& to, int32_t result, int64_t most = 0) {
  ModelMaker maker = map_model("CastMap", kInt64, value, result);
  add_attribute(node_of(maker), "cast_to", onnx::kStringAttr).set_s(to);
  if (most == 0) return maker;
  add_attribute(node_of(maker), "map_form", onnx::kStringAttr).set_s("SPARSE");
  add_attribute(node_of(maker), "max_map", onnx::kIntAttr).set_i(most);
  return maker;
}

TEST(CastMap, DenseAndSparse) {
  const AnyValue x = map_value(Tensor::of<int64_t>({2}, {3, 0}), Tensor::of<float>({2}, {1.5F, -2.75F}));
  const Tensor dense = run(cast_model(kFloat, "TO_FLOAT", kFloat), {{"x", x}})[0].tensor();
  EXPECT_EQ(dense.shape(), (Shape{1, 2}));
  EXPECT_THAT(dense.span<float>(), ElementsAre(-2.75F, 1.5F));
  EXPECT_THAT(run(cast_model(kFloat, "TO_INT64", kInt64, 5), {{"x", x}})[0].tensor().ints(),
              ElementsAre(-2, 0, 0, 1, 0));
  EXPECT_THAT(run(cast_model(kFloat, "TO_STRING", kString, 4), {{"x", x}})[0].tensor().strings(),
              ElementsAre("-2.75", "0.0", "0.0", "1.5"));
  const AnyValue texts = map_value(Tensor::of<int64_t>({2}, {1, 2}), strings({"7", "-8"}));
  EXPECT_THAT(run(cast_model(kString, "TO_INT64", kInt64), {{"x", texts}})[0].tensor().ints(), ElementsAre(7, -8));
}

TEST(CastMap, Errors) {
  const auto map_of = [](int64_t key) {
    return map_value(Tensor::of<int64_t>({1}, {key}), Tensor::of<float>({1}, {1}));
  };
  EXPECT_EQ(run_error(cast_model(kFloat, "TO_FLOAT", kFloat, 3), {{"x", map_of(3)}}),
            "bad_input: CastMap 'node': the map has the key 3; legal values are 0 to 2, below attribute max_map");
  EXPECT_THAT(run_error(cast_model(kFloat, "TO_FLOAT", kFloat, 3), {{"x", map_of(-1)}}), HasSubstr("the key -1"));
  EXPECT_EQ(
      run_error(cast_model(kFloat, "TO_BOOL", kFloat), {{"x", map_of(0)}}),
      "bad_model: CastMap 'node': attribute cast_to is 'TO_BOOL'; legal values are TO_FLOAT, TO_STRING, TO_INT64");
  EXPECT_THAT(run_error(cast_model(kFloat, "TO_FLOAT", kFloat, -1), {{"x", map_of(0)}}),
              HasSubstr("attribute max_map is -1; legal values are 0 to 268435456"));
  const AnyValue text = map_value(Tensor::of<int64_t>({1}, {0}), strings({"x"}));
  EXPECT_THAT(run_error(cast_model(kString, "TO_INT64", kInt64), {{"x", text}}), HasSubstr("'x'"));
}

TEST(Maps, AreNotSequences) {
  ModelMaker maker = map_model("DictVectorizer", kInt64, kFloat, kInt64);
  node_of(maker).set_op_type("SequenceLength");
  node_of(maker).clear_domain();
  EXPECT_EQ(run_error(maker, {{"x", map_value(Tensor::of<int64_t>({1}, {1}), Tensor::of<float>({1}, {1}))}}),
            "bad_model: SequenceLength 'node': input 0 is map of 1 from i64 to f32, expected a sequence");
}

TEST(Maps, InOptionalValuesAndSequences) {
  ModelMaker maker;
  auto& input = *maker.graph().add_input();
  input.set_name("o");
  set_map_type(*input.mutable_type()->mutable_optional_type()->mutable_elem_type(), kString, kInt64);
  auto& list = *maker.graph().add_input();
  list.set_name("s");
  set_map_type(*list.mutable_type()->mutable_sequence_type()->mutable_elem_type(), kString, kInt64);
  maker.node("OptionalHasElement", {"o"}, {"has"});
  maker.node("SequenceLength", {"s"}, {"count"});
  maker.output("has", {}, 9);
  maker.output("count", {}, kInt64);
  EXPECT_EQ(onnx::text(maker.parse()->inputs()[0]), "optional map from str to i64");
  EXPECT_EQ(onnx::text(maker.parse()->inputs()[1]), "sequence of maps from str to i64");
  const AnyValue map = map_value(strings({"a"}), Tensor::of<int64_t>({1}, {1}));
  const AnyValue two = AnyValue::sequence({map, map});
  EXPECT_EQ(run(maker, {{"s", two}})[0].tensor().as_int(0), 0);
  const std::vector<AnyValue> out = run(maker, {{"o", map}, {"s", two}});
  EXPECT_EQ(out[0].tensor().as_int(0), 1);
  EXPECT_EQ(out[1].tensor().as_int(0), 2);
  EXPECT_THAT(run_error(maker, {{"s", map}}),
              HasSubstr("input 's' must be sequence of maps from str to i64, got map of 1 from str to i64"));
  EXPECT_THAT(run_error(maker, {{"o", two}, {"s", two}}), HasSubstr("input 'o' must be optional map from str to i64"));
}

}  // namespace
}  // namespace kilter
