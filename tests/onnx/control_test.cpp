// Functions that a model defines, and If with a known condition.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model_maker.h"
#include "ops/op.h"

namespace kilter::onnx {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> nodes_of(const Graph& graph) {
  std::vector<std::string> names;
  for (const NodeId id : graph.order()) {
    names.push_back(std::string(graph.node(id).op->name) + " " + graph.node(id).name);
  }
  return names;
}

std::string bind_error(const ModelMaker& maker, const Model::Values& values = {}) {
  return error_of([&] { maker.parse()->bind({}, values); });
}

/// Returns y = f(x) where f(a) = Elu(LeakyRelu(a, alpha = @slope), alpha = @curve), with curve = 2 by default.
ModelMaker function_model() {
  ModelMaker maker;
  maker.import("my", 1);
  maker.input("x", {2});
  auto& call = maker.node("Twice", {"x"}, {"y"}, "call");
  call.set_domain("my");
  add_attribute(call, "slope", kFloatAttr).set_f(0.25f);
  maker.output("y", {2});
  auto& function = *maker.proto.add_functions();
  function.set_name("Twice");
  function.set_domain("my");
  function.add_input("a");
  function.add_output("c");
  function.add_attribute("slope");
  auto& curve = *function.add_attribute_proto();
  curve.set_name("curve");
  curve.set_type(kFloatAttr);
  curve.set_f(2);
  auto& import = *function.add_opset_import();
  import.set_version(16);
  auto& elu = add_node(*function.add_node(), "Elu", {"b"}, {"c"}, "elu");
  add_attribute(elu, "alpha", kFloatAttr).set_ref_attr_name("curve");
  auto& leaky = add_node(*function.add_node(), "LeakyRelu", {"a"}, {"b"}, "leaky");
  add_attribute(leaky, "alpha", kFloatAttr).set_ref_attr_name("slope");
  return maker;
}

TEST(Function, IsExpandedWithAttributes) {
  const Graph graph = function_model().parse()->bind({});
  EXPECT_THAT(nodes_of(graph), ElementsAre("LeakyRelu call/leaky", "Elu call/elu"));
  const Node& leaky = graph.node(graph.order()[0]);
  EXPECT_EQ(leaky.float_attr("alpha", 0), 0.25f);
  EXPECT_EQ(leaky.opset, 16);
  EXPECT_EQ(graph.node(graph.order()[1]).float_attr("alpha", 0), 2.0f);
}

TEST(Function, CallOverridesDefaults) {
  ModelMaker maker = function_model();
  add_attribute(*maker.graph().mutable_node(0), "curve", kFloatAttr).set_f(3);
  const Graph graph = maker.parse()->bind({});
  EXPECT_EQ(graph.node(graph.order()[1]).float_attr("alpha", 0), 3.0f);
}

TEST(Function, TwoCallsAndOverloads) {
  ModelMaker maker = function_model();
  maker.graph().mutable_node(0)->set_output(0, "m");
  auto& call = maker.node("Twice", {"m"}, {"y"}, "other");
  call.set_domain("my");
  call.set_overload("abs");
  auto& overload = *maker.proto.add_functions();
  overload.set_name("Twice");
  overload.set_domain("my");
  overload.set_overload("abs");
  overload.add_input("a");
  overload.add_output("b");
  overload.add_opset_import()->set_version(17);
  add_node(*overload.add_node(), "Abs", {"a"}, {"b"}, "");
  EXPECT_THAT(nodes_of(maker.parse()->bind({})), ElementsAre("LeakyRelu call/leaky", "Elu call/elu", "Abs other/b"));
}

TEST(Function, Errors) {
  ModelMaker attribute = function_model();
  attribute.graph().mutable_node(0)->clear_attribute();
  EXPECT_EQ(bind_error(attribute),
            "bad_model: m.onnx: my:Twice 'call': attribute 'slope' is missing; the function has no default for it");
  ModelMaker kind = function_model();
  kind.graph().mutable_node(0)->mutable_attribute(0)->set_type(kIntAttr);
  EXPECT_THAT(bind_error(kind), HasSubstr("attribute 'alpha' is FLOAT, but the call gives 'slope' as INT"));
  ModelMaker inputs = function_model();
  inputs.graph().mutable_node(0)->add_input("x");
  EXPECT_EQ(
      bind_error(inputs),
      "bad_model: m.onnx: my:Twice 'call': calls its function with 2 inputs and 1 outputs; expected at most 1 and 1");
  ModelMaker twice = function_model();
  *twice.proto.add_functions() = twice.proto.functions(0);
  EXPECT_THAT(error_of([&] { twice.parse(); }), HasSubstr("function 'Twice' of domain 'my' is defined twice"));
  ModelMaker body = function_model();
  body.proto.mutable_functions(0)->mutable_node(0)->set_input(0, "nowhere");
  EXPECT_EQ(error_of([&] { body.parse(); }),
            "bad_model: m.onnx: Elu 'elu' reads 'nowhere', which nothing in function 'Twice' produces");
  ModelMaker opset = function_model();
  opset.proto.mutable_functions(0)->mutable_opset_import(0)->set_version(99);
  EXPECT_THAT(error_of([&] { opset.parse(); }),
              HasSubstr("opset 99 of ai.onnx of function 'Twice'; Kilter reads 1 to 28"));
}

TEST(Function, RecursionIsRefused) {
  ModelMaker maker = function_model();
  auto& node = *maker.proto.mutable_functions(0)->mutable_node(1);
  node.set_op_type("Twice");
  node.set_domain("my");
  EXPECT_EQ(
      error_of([&] { maker.parse(); }),
      "bad_model: m.onnx: functions call each other in a cycle: 'Twice' -> back to the first; recursion is not legal");
}

/// Returns a model in which f0 calls f1 twice, f1 calls f2 twice, ...
ModelMaker doubling_model(int depth) {
  ModelMaker maker;
  maker.import("my", 1);
  maker.input("x", {2});
  maker.node("f0", {"x"}, {"y"}).set_domain("my");
  maker.output("y", {2});
  for (int i = 0; i <= depth; ++i) {
    auto& function = *maker.proto.add_functions();
    function.set_name("f" + std::to_string(i));
    function.set_domain("my");
    function.add_input("a");
    function.add_output("c");
    function.add_opset_import()->set_version(17);
    const std::string op = i == depth ? "Relu" : "f" + std::to_string(i + 1);
    for (const auto& [from, to] : {std::pair{"a", "b"}, std::pair{"b", "c"}}) {
      auto& node = add_node(*function.add_node(), op, {from}, {to}, "");
      if (i < depth) node.set_domain("my");
    }
  }
  return maker;
}

TEST(Function, TooLargeExpansionsAreRefused) {
  EXPECT_EQ(doubling_model(3).parse()->bind({}).order().size(), 16u);
  EXPECT_EQ(error_of([] { doubling_model(40).parse(); }),
            "unsupported: m.onnx: expanding the functions exceeds the limit of 1000000 nodes");
  EXPECT_EQ(error_of([] { doubling_model(100).parse(); }),
            "unsupported: m.onnx: function calls are nested more than 64 deep, the limit");
}

/// Adds y = If(cond) { Relu(x) } else { Add(x, w) }, where w is an initializer of the branch.
void add_if(ModelMaker& maker, const std::string& condition) {
  maker.input("x", {2});
  maker.node("Neg", {"x"}, {"n"}, "neg");
  auto& node = maker.node("If", {condition}, {"y"}, "if");
  auto& then_branch = *add_attribute(node, "then_branch", kGraphAttr).mutable_g();
  add_node(*then_branch.add_node(), "Relu", {"n"}, {"t"}, "relu");
  set_tensor_type(*then_branch.add_output(), "t", {2});
  auto& else_branch = *add_attribute(node, "else_branch", kGraphAttr).mutable_g();
  set_floats(*else_branch.add_initializer(), "w", {2}, {1, 2});
  add_node(*else_branch.add_node(), "Add", {"x", "w"}, {"e"}, "add");
  set_tensor_type(*else_branch.add_output(), "e", {2});
  maker.output("y", {2});
}

ModelMaker constant_if_model(bool condition) {
  ModelMaker maker;
  auto& value = maker.initializer();
  value.set_name("cond");
  value.set_data_type(9);
  value.add_int32_data(condition ? 1 : 0);
  add_if(maker, "cond");
  return maker;
}

TEST(If, ConstantConditionIsInlined) {
  EXPECT_THAT(nodes_of(constant_if_model(true).parse()->bind({})), ElementsAre("Neg neg", "Relu relu"));
  EXPECT_THAT(nodes_of(constant_if_model(false).parse()->bind({})), ElementsAre("Add add"));
}

TEST(If, ConditionFromShapes) {
  ModelMaker maker;
  maker.node("Size", {"x"}, {"size"});
  auto& two = maker.initializer();
  two.set_name("two");
  two.set_data_type(7);
  two.add_int64_data(2);
  maker.node("Equal", {"size", "two"}, {"cond"});
  add_if(maker, "cond");
  EXPECT_THAT(nodes_of(maker.parse()->bind({})), ElementsAre("Neg neg", "Relu relu"));
}

TEST(If, ConditionFromAnInput) {
  ModelMaker maker;
  maker.input("flag", {}, 9);
  maker.node("Not", {"flag"}, {"cond"});
  add_if(maker, "cond");
  const auto model = maker.parse();
  EXPECT_THAT(model->value_inputs({}), ElementsAre("flag"));
  EXPECT_EQ(
      error_of([&] { model->bind({}); }),
      "unsupported: m.onnx: which branch of If 'if' runs depends on the value 'cond', which is computed from inputs: "
      "give their values, `--input flag=FILE.npy`");
  EXPECT_THAT(nodes_of(model->bind({}, {{"flag", Tensor::scalar(true)}})), ElementsAre("Add add"));
}

TEST(If, MissingOperatorsOfTheBranchThatRuns) {
  ModelMaker maker = constant_if_model(true);
  auto& branch = *maker.graph().mutable_node(1)->mutable_attribute(1)->mutable_g();
  branch.mutable_node(0)->set_op_type("Nonsense");
  EXPECT_EQ(bind_error(maker), "no error") << "the other branch runs";
  EXPECT_EQ(maker.parse()->missing().size(), 1u);
  ModelMaker taken = constant_if_model(false);
  *taken.graph().mutable_node(1)->mutable_attribute(1)->mutable_g() = branch;
  EXPECT_THAT(bind_error(taken), HasSubstr("ai.onnx:Nonsense@17 (1 node: 'add'): unknown operator"));
}

TEST(If, WrongBranches) {
  ModelMaker none = constant_if_model(true);
  none.graph().mutable_node(1)->mutable_attribute()->DeleteSubrange(0, 1);
  EXPECT_EQ(
      bind_error(none),
      "bad_model: m.onnx: If 'if': expected a graph without inputs and with 1 outputs as its then_branch, got none");
  ModelMaker outputs = constant_if_model(true);
  outputs.graph().mutable_node(1)->mutable_attribute(0)->mutable_g()->clear_output();
  EXPECT_THAT(bind_error(outputs), HasSubstr("as its then_branch, got 0 inputs and 0 outputs"));
}

TEST(If, BranchesSeeOnlyEnclosingNames) {
  ModelMaker maker = constant_if_model(true);
  maker.graph().mutable_node(1)->mutable_attribute(0)->mutable_g()->mutable_node(0)->set_input(0, "e");
  EXPECT_EQ(error_of([&] { maker.parse(); }),
            "bad_model: m.onnx: Relu 'relu' reads 'e', which nothing in the graph produces");
}

TEST(If, NodesReadByABranchAreSortedBeforeIt) {
  ModelMaker maker = constant_if_model(true);
  maker.graph().mutable_node()->SwapElements(0, 1);
  EXPECT_THAT(nodes_of(maker.parse()->bind({})), ElementsAre("Neg neg", "Relu relu"));
}

/// Returns y = FlexAttention(q, k, v) with one node of a given operator as score_mod.
ModelMaker flex_model(const std::string& op, const std::vector<std::string>& extra_inputs = {}) {
  ModelMaker maker;
  maker.import("ai.onnx.preview", 1);
  for (const char* name : {"q", "k", "v"}) maker.input(name, {1, 2, 3, 4});
  auto& node = maker.node("FlexAttention", {"q", "k", "v"}, {"y"}, "flex");
  node.set_domain("ai.onnx.preview");
  auto& body = *add_attribute(node, "score_mod", kGraphAttr).mutable_g();
  body.set_name("change");
  body.add_input()->set_name("scores");
  for (const std::string& name : extra_inputs) body.add_input()->set_name(name);
  body.add_output()->set_name("changed");
  add_node(*body.add_node(), op, {"scores"}, {"changed"}, "change");
  maker.output("y", {1, 2, 3, 4});
  return maker;
}

TEST(FlexAttention, ScoreGraphsAreInlined) {
  EXPECT_THAT(nodes_of(flex_model("Tanh").parse()->bind({})),
              ElementsAre("Mul flex", "Transpose flex_1", "Mul flex_2", "MatMul flex_3", "Tanh change",
                          "Softmax flex_4", "MatMul flex_5"));
}

TEST(FlexAttention, WrongScoreGraphsAreErrors) {
  EXPECT_EQ(
      bind_error(flex_model("Shape")),
      "bad_model: m.onnx: FlexAttention 'flex': attribute score_mod returns i64[4] for f32[1,2,3,3]; it must keep "
      "the type");
  EXPECT_EQ(
      bind_error(flex_model("Tanh", {"probabilities"})),
      "bad_model: m.onnx: ai.onnx.preview:FlexAttention 'flex': expected a graph with one input and one output as its "
      "score_mod, got 2 and 1");
}

}  // namespace
}  // namespace kilter::onnx
