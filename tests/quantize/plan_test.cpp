#include "quantize/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "models.h"
#include "quantize/fold.h"

namespace kilter::quantize {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;
using testing::UnorderedElementsAre;

const Types kFloats = [](const std::string&) { return DType::f32; };

Plan plan_of(const ModelMaker& model, Format format = Format::qdq, const std::set<std::string>& exclude = {}) {
  const Folder folder;
  Document document = Document::load(folder.write(model));
  fold_into_convolutions(document);
  return make_plan(document, kFloats, format, exclude);
}

/// Returns "op>output" for each layer, with "!" where the output stays float.
std::vector<std::string> layers(const Plan& plan) {
  std::vector<std::string> all;
  for (const Layer& l : plan.layers)
    all.push_back(fmt::format("{}{}{}", l.role->op, l.writes_integers ? ">" : "!", l.output));
  return all;
}

TEST(Plan, OfAResidualNetwork) {
  const Plan plan = plan_of(residual_model());
  EXPECT_THAT(layers(plan), ElementsAre("Conv>r1", "Conv>c2", "Add>r2", "GlobalAveragePool>p", "Flatten>f", "Gemm!y"));
  EXPECT_THAT(plan.values, UnorderedElementsAre(Pair("x", "x"), Pair("r1", "r1"), Pair("c2", "c2"), Pair("r2", "r2"),
                                                Pair("p", "p"), Pair("f", "p")));
  EXPECT_TRUE(plan.left_out.empty());
}

TEST(Plan, LeavesExcludedNodesOut) {
  const Plan plan = plan_of(residual_model(), Format::qdq, {"conv2"});
  // The sum has only one quantised operand, so it and what follows stay float, but the last product reads f.
  EXPECT_THAT(layers(plan), ElementsAre("Conv>r1", "Gemm!y"));
  ASSERT_EQ(plan.left_out.size(), 1U);
  EXPECT_EQ(plan.left_out[0].node, "conv2");
  EXPECT_EQ(plan.left_out[0].reason, "--exclude");
}

TEST(Plan, KeepsAReluIfValuesHaveOtherReaders) {
  ModelMaker m = residual_model();
  m.node("Neg", {"c2"}, {"n"}, "neg");
  m.output("n", {1, 8, 12, 12});
  EXPECT_THAT(layers(plan_of(m)), testing::Contains("Conv>c2"));
  ModelMaker other = residual_model();
  other.node("Neg", {"s"}, {"n"}, "neg");
  other.output("n", {1, 8, 12, 12});
  EXPECT_THAT(layers(plan_of(other)), testing::Contains("Add>s")) << "two nodes read the sum";
}

/// x -> Conv -> Clip -> Conv -> y
ModelMaker clip_model(float low) {
  ModelMaker m;
  m.input("x", {1, 3, 8, 8});
  m.node("Conv", {"x", "w"}, {"c"}, "conv");
  m.node("Clip", {"c", "low", "high"}, {"r"}, "clip");
  m.node("Conv", {"r", "v"}, {"y"}, "last");
  m.output("y", {1, 2, 4, 4});
  add_floats(m, "w", {4, 3, 3, 3}, 1, 0.3F);
  add_floats(m, "v", {2, 4, 3, 3}, 2, 0.3F);
  onnx::set_floats(m.initializer(), "low", {}, {low});
  onnx::set_floats(m.initializer(), "high", {}, {6});
  return m;
}

TEST(Plan, SaturationReplacesAClipFromZero) {
  EXPECT_THAT(layers(plan_of(clip_model(0))), ElementsAre("Conv>r", "Conv>y"));
  EXPECT_THAT(layers(plan_of(clip_model(-1))), ElementsAre("Conv>c", "Conv>y"));
}

/// a[2,3,4] x b[2,4,5] -> Transpose -> x w[3,6] -> Add(bias) -> Neg -> y
ModelMaker product_model() {
  ModelMaker m;
  m.input("a", {2, 3, 4});
  m.input("b", {2, 4, 5});
  m.node("MatMul", {"a", "b"}, {"p"}, "scores");
  set_ints(m.node("Transpose", {"p"}, {"t"}, "turn"), "perm", {0, 2, 1});
  m.node("MatMul", {"t", "w"}, {"q"}, "project");
  m.node("Add", {"q", "bias"}, {"s"}, "add");
  m.node("Neg", {"s"}, {"y"}, "neg");
  m.output("y", {2, 5, 6});
  add_floats(m, "w", {3, 6}, 1, 1);
  add_floats(m, "bias", {6}, 2, 1);
  return m;
}

TEST(Plan, OfProducts) {
  const Plan plan = plan_of(product_model());
  EXPECT_THAT(layers(plan), ElementsAre("MatMul>p", "Transpose>t", "MatMul>q"));
  EXPECT_EQ(plan.values.at("t"), "p") << "a movement keeps the scale";
  ModelMaker last = product_model();
  last.graph().mutable_output(0)->set_name("q");
  EXPECT_THAT(layers(plan_of(last)), ElementsAre("MatMul>p", "Transpose>t", "MatMul!q"));
  EXPECT_THAT(layers(plan_of(last, Format::qoperator)), ElementsAre("MatMul>p", "Transpose>t", "MatMul>q"));
}

TEST(Plan, SaysWhyProductsStayFloat) {
  ModelMaker m = residual_model();
  auto& alpha = onnx::add_attribute(*m.graph().mutable_node(8), "alpha", onnx::kFloatAttr);
  alpha.set_f(2);
  m.node("MatMul", {"w3", "y"}, {"z"}, "first");
  const Plan plan = plan_of(m);
  ASSERT_EQ(plan.left_out.size(), 2U);
  EXPECT_EQ(plan.left_out[0].reason, "alpha or beta is not 1");
  EXPECT_EQ(plan.left_out[1].reason, "its first operand is constant");
}

TEST(Plan, RefusesUnknownNodes) {
  const Folder folder;
  const auto file = folder.write(residual_model());
  const Document document = Document::load(file);
  check_nodes_exist(document, {"conv1", "fc"});
  EXPECT_EQ(
      onnx::error_of([&] { check_nodes_exist(document, {"conv3"}); }),
      fmt::format(
          "usage: --exclude conv3: {} has no node of this name; legal values are the names in the table that quantize "
          "prints, and those that `kilter inspect` lists; a node without a name is named after its first output",
          file.string()));
}

TEST(Plan, RefusesModelsWithoutProducts) {
  EXPECT_THAT(onnx::error_of([] { plan_of(onnx::relu_model()); }),
              HasSubstr("nothing to quantise: expected at least one Conv, Gemm or MatMul on f32 with constant weights, "
                        "found none"));
  ModelMaker m;
  m.input("x", {2, 3});
  m.node("MatMul", {"w", "x"}, {"y"}, "product");
  m.output("y", {2, 3});
  add_floats(m, "w", {2, 2}, 1, 1);
  EXPECT_THAT(onnx::error_of([&] { plan_of(m); }),
              HasSubstr("found 1 that cannot be:\n  MatMul 'product': its first operand is constant"));
  ModelMaker quantised = onnx::relu_model();
  quantised.node("QuantizeLinear", {"y", "scale"}, {"q"}, "first");
  onnx::set_floats(quantised.initializer(), "scale", {}, {1});
  EXPECT_THAT(onnx::error_of([&] { plan_of(quantised); }),
              HasSubstr("the model is already quantised: it contains QuantizeLinear 'first'; give the float model"));
}

}  // namespace
}  // namespace kilter::quantize
