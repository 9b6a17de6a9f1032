#include "quantize/document.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "models.h"
#include "quantize/fold.h"
#include "quantize/opset.h"

namespace kilter::quantize {
namespace {

std::vector<std::string> op_names(const Document& document) {
  std::vector<std::string> names;
  for (const auto& node : document.nodes()) names.push_back(op_name(node));
  return names;
}

TEST(Document, KeepsUnknownFields) {
  const Folder folder;
  ModelMaker model = onnx::relu_model();
  // ModelProto.metadata_props (14): a message with key (1) and value (2).
  const std::string metadata =
      "\x72\x0a\x0a\x03"
      "key"
      "\x12\x03"
      "val";
  write_file_atomically(folder.path() / "m.onnx", model.bytes() + metadata);
  Document::load(folder.path() / "m.onnx").save(folder.path() / "saved.onnx");
  EXPECT_THAT(read_file(folder.path() / "saved.onnx"), testing::HasSubstr(metadata));
}

TEST(Document, FindsConstantsThroughViews) {
  const Folder folder;
  ModelMaker model = onnx::relu_model();
  onnx::set_floats(model.initializer(), "w", {2, 3}, {1, 2, 3, 4, 5, 6});
  onnx::set_int64s(model.initializer(), "shape", {3, -1});
  model.node("Reshape", {"w", "shape"}, {"v"});
  model.node("Identity", {"v"}, {"u"});
  model.node("Add", {"u", "u"}, {"t"});
  const Document document = Document::load(folder.write(model));
  ASSERT_NE(document.constant("u"), nullptr);
  EXPECT_EQ(document.constant("u")->shape(), Shape({3, 2}));
  EXPECT_EQ(document.constant("u")->as_double(5), 6);
  EXPECT_EQ(document.constant("t"), nullptr);
  EXPECT_EQ(document.constant("x"), nullptr);
}

TEST(Document, MakesFreshNames) {
  const Folder folder;
  Document document = Document::load(folder.write(onnx::relu_model()));
  EXPECT_EQ(document.fresh("y"), "y_2");
  EXPECT_EQ(document.fresh("y"), "y_3");
  EXPECT_EQ(document.fresh("z"), "z");
}

TEST(Document, StoresLargeWeightsOutside) {
  const Folder folder;
  const auto file = folder.write(residual_model());
  const auto saved = folder.path() / "saved.onnx";
  Document::load(file).save(saved, 0);
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "saved.onnx.weights"));
  EXPECT_EQ(most_difference(run(file, {1, 3, 12, 12})[0], run(saved, {1, 3, 12, 12})[0]), 0);
}

TEST(Document, RemovesUnusedParts) {
  const Folder folder;
  ModelMaker model = onnx::relu_model();
  onnx::set_floats(model.initializer(), "unread", {1}, {1});
  model.input("unread", {1});  // an initializer that is also an input, as in old files
  onnx::set_tensor_type(*model.graph().add_value_info(), "gone", {1});
  Document document = Document::load(folder.write(model));
  document.remove_unused();
  EXPECT_EQ(document.graph().initializer_size(), 0);
  EXPECT_EQ(document.graph().input_size(), 1);
  EXPECT_EQ(document.graph().value_info_size(), 0);
}

TEST(Fold, KeepsTheFunction) {
  const Folder folder;
  const auto file = folder.write(residual_model());
  Document document = Document::load(file);
  EXPECT_EQ(fold_into_convolutions(document), 1);
  EXPECT_THAT(op_names(document),
              testing::ElementsAre("Conv", "Relu", "Conv", "Add", "Relu", "GlobalAveragePool", "Flatten", "Gemm"));
  EXPECT_EQ(document.nodes()[0].output(0), "b1") << "the value of the last folded node keeps its name";
  document.save(folder.path() / "folded.onnx");
  const Tensor want = run(file, {1, 3, 12, 12})[0], got = run(folder.path() / "folded.onnx", {1, 3, 12, 12})[0];
  EXPECT_LT(most_difference(want, got), 1e-5);
}

/// x[1,3,8,8] -> conv -> mul(scale) -> add(reshaped row) -> y: what some exporters write instead of a bias.
TEST(Fold, TakesConstantsForEachChannel) {
  const Folder folder;
  ModelMaker m;
  m.input("x", {1, 3, 8, 8});
  m.node("Conv", {"x", "w"}, {"c"}, "conv");
  m.node("Mul", {"scale", "c"}, {"s"}, "mul");
  m.node("Reshape", {"row", "shape"}, {"b"});
  m.node("Add", {"s", "b"}, {"y"}, "add");
  m.output("y", {1, 4, 6, 6});
  add_floats(m, "w", {4, 3, 3, 3}, 1, 0.3F);
  add_floats(m, "scale", {}, 2, 1);
  add_floats(m, "row", {4}, 3, 1);
  onnx::set_int64s(m.initializer(), "shape", {1, 4, 1, 1});
  const auto file = folder.write(m);
  Document document = Document::load(file);
  EXPECT_EQ(fold_into_convolutions(document), 2);
  EXPECT_THAT(op_names(document), testing::ElementsAre("Conv"));
  document.save(folder.path() / "folded.onnx");
  EXPECT_LT(most_difference(run(file, {1, 3, 8, 8})[0], run(folder.path() / "folded.onnx", {1, 3, 8, 8})[0]), 1e-5);
}

TEST(Fold, KeepsResultsWithOtherReaders) {
  const Folder folder;
  ModelMaker m = residual_model();
  m.node("Relu", {"c1"}, {"z"});
  m.output("z", {1, 8, 12, 12});
  Document document = Document::load(folder.write(m));
  EXPECT_EQ(fold_into_convolutions(document), 0);
}

TEST(Fold, FoldsMatMulAndAddIntoGemm) {
  const Folder folder;
  ModelMaker m;
  m.input("x", {2, 3});
  m.node("MatMul", {"x", "w"}, {"p"}, "product");
  m.node("Add", {"b", "p"}, {"y"});
  m.output("y", {2, 4});
  add_floats(m, "w", {3, 4}, 1, 1);
  add_floats(m, "b", {4}, 2, 1);
  const auto file = folder.write(m);
  Document document = Document::load(file);
  EXPECT_EQ(fold_into_gemms(document, [](const std::string&) { return false; }), 0);
  EXPECT_EQ(fold_into_gemms(document, [](const std::string&) { return true; }), 1);
  EXPECT_THAT(op_names(document), testing::ElementsAre("Gemm"));
  document.save(folder.path() / "folded.onnx");
  EXPECT_LT(most_difference(run(file, {2, 3})[0], run(folder.path() / "folded.onnx", {2, 3})[0]), 1e-5);
}

const Ranks kUnknown = [](const std::string&) { return std::nullopt; };

/// x[1,4,6] -> Squeeze(axes=0) -> ReduceMean(axes=1) -> Softmax -> y[4,1] in opset 11.
ModelMaker old_model(int64_t softmax_axis) {
  ModelMaker m(11);
  m.input("x", {1, 4, 6});
  set_ints(m.node("Squeeze", {"x"}, {"s"}, "squeeze"), "axes", {0});
  set_ints(m.node("ReduceMean", {"s"}, {"r"}, "mean"), "axes", {1});
  auto& softmax = m.node("Softmax", {"r"}, {"y"}, "softmax");
  onnx::add_attribute(softmax, "axis", onnx::kIntAttr).set_i(softmax_axis);
  m.output("y", {4, 1});
  return m;
}

TEST(RaiseOpset, KeepsTheFunction) {
  const Folder folder;
  const auto file = folder.write(old_model(1));
  Document document = Document::load(file);
  raise_opset(document, 21, [](const std::string&) { return std::optional<int64_t>(2); }, "the test", "");
  EXPECT_EQ(document.opset(), 21);
  EXPECT_EQ(document.proto().ir_version(), 10);
  EXPECT_EQ(document.nodes()[0].attribute_size(), 0);
  EXPECT_EQ(document.constant(document.nodes()[0].input(1))->ints(), Shape{0});
  document.save(folder.path() / "raised.onnx");
  EXPECT_EQ(most_difference(run(file, {1, 4, 6})[0], run(folder.path() / "raised.onnx", {1, 4, 6})[0]), 0);
}

TEST(RaiseOpset, RefusesNodesWithChangedMeaning) {
  const Folder folder;
  const auto file = folder.write(old_model(0));
  Document document = Document::load(file);
  EXPECT_EQ(
      onnx::error_of([&] { raise_opset(document, 13, kUnknown, "the test", ", or do not"); }),
      fmt::format("unsupported: {}: the test needs opset 13, the model has 11, and Softmax 'softmax' has a different "
                  "form in opset 13; convert the model with onnx.version_converter.convert_version(model, 13), or "
                  "do not",
                  file.string()));
  EXPECT_EQ(document.opset(), 11);
}

TEST(RaiseOpset, LeavesNewerModels) {
  const Folder folder;
  Document document = Document::load(folder.write(onnx::relu_model()));
  raise_opset(document, 13, kUnknown, "the test", "");
  EXPECT_EQ(document.opset(), 17);
}

TEST(Uses, CountReadersInSubgraphs) {
  const Folder folder;
  ModelMaker m = onnx::relu_model();
  auto& node = m.node("If", {"condition"}, {"z"}, "if");
  onnx::pb::GraphProto branch;
  branch.set_name("branch");
  onnx::add_node(*branch.add_node(), "Neg", {"y"}, {"n"}, "neg");
  branch.add_output()->set_name("n");
  *onnx::add_attribute(node, "then_branch", onnx::kGraphAttr).mutable_g() = branch;
  *onnx::add_attribute(node, "else_branch", onnx::kGraphAttr).mutable_g() = branch;
  m.input("condition", {}, onnx::number_of_dtype(DType::boolean));
  Document document = Document::load(folder.write(m));
  const Uses uses(document);
  EXPECT_TRUE(uses.read_elsewhere("y"));
  EXPECT_FALSE(uses.read_elsewhere("n"));
  EXPECT_EQ(uses.only_reader("x"), 0);
}

}  // namespace
}  // namespace kilter::quantize
