// Static graphs from models: shapes, values, constants, folding of shape computations, missing operators.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "model_maker.h"
#include "ops/op.h"
#include "ops/support/builder.h"

namespace kilter::onnx {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string bind_error(const ModelMaker& maker, const Model::Shapes& shapes = {}, const Model::Values& values = {}) {
  const auto model = maker.parse();
  return error_of([&] { model->bind(shapes, values); });
}

std::string output_type(const Graph& graph, size_t i = 0) { return text(graph.type(graph.outputs().at(i).value)); }

std::vector<std::string> ops_of(const Graph& graph) {
  std::vector<std::string> names;
  for (const NodeId id : graph.order()) names.emplace_back(graph.node(id).op->name);
  return names;
}

/// Returns y = Relu(x) with x: f32[batch,3,?].
ModelMaker symbolic_model() {
  ModelMaker maker;
  maker.input("x", {"batch", 3, 0});
  maker.node("Relu", {"x"}, {"y"}, "relu");
  maker.output("y", {"batch", 3, "wrong name"});
  return maker;
}

TEST(Bind, StaticModel) {
  const Graph graph = relu_model().parse()->bind({});
  EXPECT_EQ(graph.name, "g");
  ASSERT_EQ(graph.inputs().size(), 1u);
  EXPECT_EQ(graph.value(graph.inputs()[0]).name, "x");
  ASSERT_EQ(graph.outputs().size(), 1u);
  EXPECT_EQ(graph.outputs()[0].name, "y");
  EXPECT_EQ(output_type(graph), "f32[2,3]");
  EXPECT_EQ(graph.node(graph.order().at(0)).name, "relu");
  EXPECT_EQ(graph.node(graph.order().at(0)).opset, 17);
}

TEST(Bind, SymbolicDimensions) {
  EXPECT_EQ(output_type(symbolic_model().parse()->bind({{"x", {5, 3, 7}}})), "f32[5,3,7]");
  EXPECT_EQ(bind_error(symbolic_model()),
            "bad_input: m.onnx: input 'x' f32[batch,3,?]: no size for dimensions 0 ('batch'), 2; give the shape, e.g. "
            "`--input x=1x3x128`");
  ModelMaker image;
  image.input("x", {"n", 3, "h", "w"});
  image.input("z", {"m"});
  image.node("Relu", {"x"}, {"y"});
  image.output("y", {"n", 3, "h", "w"});
  EXPECT_EQ(bind_error(image),
            "bad_input: m.onnx: input 'x' f32[n,3,h,w]: no size for dimensions 0 ('n'), 2 ('h'), 3 ('w'); input 'z' "
            "f32[m]: no size for dimension 0 ('m'); give the shape, e.g. `--input x=1x3x640x640 --input z=1`");
}

/// The example in the message gives a shape for every input that the model leaves open, with the input's rank, in a
/// form that a shell accepts. Dimensions with equal names get equal sizes.
TEST(Bind, ExamplesNameEveryOpenInput) {
  ModelMaker maker;
  maker.input("ids", {"batch", "length"}, 7);
  maker.input("mask of it", {"batch", "past", "length"});
  maker.input("scale", {1});
  maker.input("$(x)", {"length", 4});
  maker.node("Relu", {"scale"}, {"y"}, "relu");
  maker.output("y", {1});
  const auto model = maker.parse();
  EXPECT_THAT(bind_error(maker),
              testing::EndsWith("; give the shape, e.g. `--input ids=1x128 --input 'mask of it=1x128x128' "
                                "--input '$(x)=128x4'`"));
  EXPECT_THAT(bind_error(maker, {{"ids", {2, 7}}}),
              testing::EndsWith("e.g. `--input 'mask of it=2x128x7' --input '$(x)=7x4'`"));
  EXPECT_EQ(declared_shape(model->inputs()[2]), Shape{1});
  EXPECT_EQ(declared_shape(model->inputs()[0]), std::nullopt);
}

TEST(Bind, ContradictionsAndUnknownNames) {
  EXPECT_EQ(bind_error(symbolic_model(), {{"x", {5, 4, 7}}}),
            "bad_input: m.onnx: input 'x': declared f32[batch,3,?], given 5x4x7: dimension 1 is 3 in the model, got 4");
  EXPECT_EQ(bind_error(symbolic_model(), {{"x", {5, 3}}}),
            "bad_input: m.onnx: input 'x': declared f32[batch,3,?], given 5x3: expected 3 dimensions, got 2");
  EXPECT_EQ(bind_error(symbolic_model(), {{"x", {-1, 3, 1}}}),
            "bad_input: m.onnx: input 'x': declared f32[batch,3,?], given -1x3x1: dimensions are 0 or more");
  EXPECT_THAT(bind_error(symbolic_model(), {{"x", {int64_t{1} << 40, 3, 1}}}), HasSubstr("more than 2^40 elements"));
  EXPECT_EQ(bind_error(symbolic_model(), {{"z", {1}}}),
            "bad_input: m.onnx: the model has no input 'z'; its inputs are: 'x' f32[batch,3,?]");
}

TEST(Bind, AbsurdDeclaredShape) {
  ModelMaker maker = relu_model();
  auto& shape = *maker.graph().mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape();
  shape.mutable_dim(0)->set_dim_value(std::numeric_limits<int64_t>::max());
  EXPECT_THAT(bind_error(maker), HasSubstr("has more than 2^40 elements"));
}

TEST(Bind, ValuesMakeInputsConstant) {
  const auto model = relu_model().parse();
  const Graph graph = model->bind({}, {{"x", Tensor::of<float>({2, 3}, {-1, 2, -3, 4, -5, 6})}});
  EXPECT_TRUE(graph.inputs().empty());
  const auto& value = graph.value(graph.outputs()[0].value).constant;
  ASSERT_TRUE(value.has_value());
  EXPECT_TRUE(value->same(Tensor::of<float>({2, 3}, {0, 2, 0, 4, 0, 6})));
  EXPECT_EQ(bind_error(relu_model(), {}, {{"x", Tensor::of<int64_t>({2, 3}, {1, 2, 3, 4, 5, 6})}}),
            "bad_input: m.onnx: input 'x': declared f32[2,3], given a value i64[2,3]");
  EXPECT_EQ(bind_error(symbolic_model(), {{"x", {1, 3, 1}}}, {{"x", Tensor(DType::f32, {1, 3, 2})}}),
            "bad_input: m.onnx: input 'x': declared f32[batch,3,?] and bound to 1x3x1, given a value f32[1,3,2]");
}

TEST(Bind, InitializersThatAreInputs) {
  ModelMaker maker = relu_model();
  maker.input("w", {3});
  set_floats(maker.initializer(), "w", {3}, {1, 2, 3});
  maker.graph().mutable_node(0)->set_output(0, "r");
  maker.node("Add", {"r", "w"}, {"y"}, "add");
  const auto model = maker.parse();
  EXPECT_EQ(model->inputs().size(), 1u);
  EXPECT_EQ(model->bind({}).inputs().size(), 1u);
  const Graph fed = model->bind({{"w", {3}}});
  ASSERT_EQ(fed.inputs().size(), 2u);
  EXPECT_EQ(fed.value(fed.inputs()[1]).name, "w");
}

TEST(Bind, NanWeightsAreLegal) {
  ModelMaker maker = relu_model();
  set_floats(maker.initializer(), "w", {1}, {std::numeric_limits<float>::quiet_NaN()});
  maker.graph().mutable_node(0)->set_output(0, "r");
  maker.node("Add", {"r", "w"}, {"y"}, "add");
  EXPECT_EQ(bind_error(maker), "no error");
}

TEST(Bind, ConstantNodesOfEveryKind) {
  ModelMaker maker;
  const auto constant = [&](const std::string& key, int32_t kind) -> pb::AttributeProto& {
    return add_attribute(maker.node("Constant", {}, {key}), key, kind);
  };
  set_int64s(*constant("value", kTensorAttr).mutable_t(), "", {1, 2});
  constant("value_float", kFloatAttr).set_f(1.5f);
  constant("value_int", kIntAttr).set_i(7);
  constant("value_floats", kFloatsAttr).add_floats(2.5f);
  auto& ints = constant("value_ints", kIntsAttr);
  ints.add_ints(3);
  ints.add_ints(4);
  constant("value_string", kStringAttr).set_s("word");
  constant("value_strings", kStringsAttr).add_strings("words");
  for (const auto& node : maker.graph().node()) {
    auto& output = *maker.graph().add_output();
    set_tensor_type(output, node.output(0), {},
                    node.output(0).find("string") != std::string::npos  ? 8
                    : node.output(0).find("float") != std::string::npos ? 1
                                                                        : 7);
  }
  const Graph graph = maker.parse()->bind({});
  std::vector<std::string> types;
  for (size_t i = 0; i < graph.outputs().size(); ++i) types.push_back(output_type(graph, i));
  EXPECT_THAT(types, ElementsAre("i64[2]", "f32[]", "i64[]", "f32[1]", "i64[2]", "str[]", "str[1]"));
  EXPECT_EQ(graph.value(graph.outputs()[2].value).constant->ints(), (std::vector<int64_t>{7}));
  EXPECT_EQ(graph.value(graph.outputs()[5].value).constant->strings(), (std::vector<std::string>{"word"}));
}

TEST(Bind, ConstantNodeErrors) {
  ModelMaker none;
  none.node("Constant", {}, {"y"}, "c");
  none.output("y", {});
  EXPECT_EQ(bind_error(none), "bad_model: m.onnx: Constant 'c': expected exactly one attribute with the value, got 0");
  ModelMaker wrong;
  add_attribute(wrong.node("Constant", {}, {"y"}, "c"), "value", kIntAttr);
  wrong.output("y", {});
  EXPECT_THAT(bind_error(wrong), HasSubstr("Constant 'c': attribute 'value' is INT; legal values are value (TENSOR)"));
  ModelMaker sparse;
  add_attribute(sparse.node("Constant", {}, {"y"}, "c"), "sparse_value", kSparseTensorAttr);
  sparse.output("y", {});
  EXPECT_EQ(
      error_of([&] { sparse.parse(); }),
      "bad_model: m.onnx: Constant 'c': attribute 'sparse_value': has no dims; expected the dimensions of the dense "
      "tensor, one or more");
}

TEST(Bind, ConstantAndIdentityHaveOneOutput) {
  for (const std::string op : {"Constant", "Identity"}) {
    ModelMaker maker;
    set_floats(maker.initializer(), "w", {1}, {5});
    auto& node = maker.node(op, {}, {"y", "more"}, "n");
    if (op == "Identity") node.add_input("w");
    if (op == "Constant") add_attribute(node, "value_float", kFloatAttr).set_f(1);
    maker.output("y", {});
    maker.output("more", {});
    EXPECT_EQ(bind_error(maker), "bad_model: m.onnx: " + op + " 'n': has 2 outputs, expected 1");
  }
}

/// The node chain that exporters write for x.reshape(x.shape[0], -1).
TEST(Bind, ShapeChainsFold) {
  ModelMaker maker;
  maker.input("x", {"n", 4, 5});
  set_int64s(maker.initializer(), "minus", {-1});
  auto& zero = maker.initializer();
  set_int64s(zero, "zero", {0});
  zero.clear_dims();
  maker.node("Shape", {"x"}, {"s"});
  add_attribute(maker.node("Gather", {"s", "zero"}, {"n"}), "axis", kIntAttr);
  set_int64s(maker.initializer(), "axes", {0});
  maker.node("Unsqueeze", {"n", "axes"}, {"u"});
  add_attribute(maker.node("Concat", {"u", "minus"}, {"target"}), "axis", kIntAttr);
  maker.node("Reshape", {"x", "target"}, {"y"}, "reshape");
  maker.output("y", {"n", 20});
  const auto model = maker.parse();
  const Graph graph = model->bind({{"x", {6, 4, 5}}});
  EXPECT_THAT(ops_of(graph), ElementsAre("Reshape"));
  EXPECT_EQ(output_type(graph), "f32[6,20]");
  EXPECT_TRUE(model->value_inputs({{"x", {6, 4, 5}}}).empty());
}

ModelMaker reshape_model() {
  ModelMaker maker;
  maker.input("x", {2, 6});
  maker.input("shape", {2}, 7);
  maker.node("Reshape", {"x", "shape"}, {"y"}, "reshape");
  maker.output("y", {"a", "b"});
  return maker;
}

TEST(Bind, ShapesFromInputs) {
  const auto model = reshape_model().parse();
  EXPECT_THAT(model->value_inputs({}), ElementsAre("shape"));
  EXPECT_EQ(error_of([&] { model->bind({}); }),
            "unsupported: m.onnx: the shape of an output of Reshape 'reshape' depends on the value 'shape', which is "
            "computed from inputs: give their values, `--input shape=FILE.npy`");
  const Model::Values values{{"shape", Tensor::of<int64_t>({2}, {3, -1})}};
  EXPECT_TRUE(model->value_inputs({}, values).empty());
  const Graph graph = model->bind({}, values);
  EXPECT_EQ(output_type(graph), "f32[3,4]");
  EXPECT_EQ(graph.inputs().size(), 1u);
}

TEST(Bind, SeveralShapeInputsAreReportedTogether) {
  ModelMaker maker = reshape_model();
  maker.input("other", {1}, 7);
  maker.node("Add", {"other", "other"}, {"twice"});
  maker.node("Expand", {"x", "twice"}, {"e"});
  maker.node("Relu", {"e"}, {"z"});
  maker.output("z", {"a", "b"});
  EXPECT_THAT(maker.parse()->value_inputs({}), ElementsAre("other", "shape"));
}

TEST(Bind, DataDependentShapes) {
  ModelMaker maker;
  maker.input("x", {1, 3, 64, 64});
  maker.node("NonZero", {"x"}, {"y"}, "nz");
  maker.output("y", {4, "n"}, 7);
  EXPECT_EQ(bind_error(maker),
            "unsupported: m.onnx: the shape of an output of NonZero 'nz' depends on data that are known only while the "
            "model runs, the value 'x': input 'x' (f32[1,3,64,64]) has more than 64 elements; Kilter runs such a "
            "network as a program, which has no single plan");
  EXPECT_THAT(maker.parse()->value_inputs({}), IsEmpty()) << "x has too many elements for its value to be asked for";
  maker.input("i", {2}, 7);
  maker.node("Relu", {"i"}, {"r"});
  EXPECT_THAT(error_of([&] { maker.parse()->value_inputs({}); }), HasSubstr("known only while the model runs"));
}

TEST(Bind, InferredShapesOverrideDeclaredOnes) {
  ModelMaker shape = relu_model();
  shape.graph()
      .mutable_output(0)
      ->mutable_type()
      ->mutable_tensor_type()
      ->mutable_shape()
      ->mutable_dim(1)
      ->set_dim_value(9);
  const auto model = shape.parse();
  const Graph graph = model->bind({});
  const Shape& made = graph.type(graph.outputs()[0].value).shape;
  EXPECT_EQ(made, (Shape{2, 3}));
  EXPECT_FALSE(fits(model->outputs()[0], made));
  EXPECT_TRUE(fits(model->outputs()[0], {2, 9}));
  EXPECT_FALSE(fits(model->outputs()[0], {2, 9, 1}));
}

TEST(Bind, OpenDimensionsFitAnySize) {
  const Port named = symbolic_model().parse()->outputs()[0];
  EXPECT_TRUE(fits(named, {5, 3, 7}));
  EXPECT_FALSE(fits(named, {5, 4, 7}));
  EXPECT_FALSE(fits(named, {5, 3}));
  ModelMaker empty = relu_model();
  auto& type = *empty.graph().mutable_output(0)->mutable_type()->mutable_tensor_type();
  type.mutable_shape()->clear_dim();
  EXPECT_TRUE(fits(empty.parse()->outputs()[0], {2, 3})) << "a rank of 0 stands for an unknown one";
  type.clear_shape();
  EXPECT_TRUE(fits(empty.parse()->outputs()[0], {2, 3}));
}

TEST(Bind, DeclaredTypesOfOutputsMustFit) {
  ModelMaker type = relu_model();
  type.graph().mutable_output(0)->mutable_type()->mutable_tensor_type()->set_elem_type(7);
  EXPECT_EQ(bind_error(type),
            "bad_model: m.onnx: output 'y': declared i64[2,3], but its nodes produce f32[2,3]; correct the declaration "
            "in the model");
}

TEST(Bind, WrongTypesNameTheNode) {
  ModelMaker maker;
  maker.input("x", {2});
  maker.input("i", {2}, 7);
  maker.node("Add", {"x", "i"}, {"y"}, "sum");
  maker.output("y", {2});
  EXPECT_THAT(bind_error(maker), HasSubstr("bad_model: m.onnx: Add 'sum'"));
  ModelMaker count = relu_model();
  count.graph().mutable_node(0)->add_input("x");
  EXPECT_THAT(bind_error(count), HasSubstr("bad_model: m.onnx: Relu 'relu': has 2 inputs, expected 1"));
}

TEST(Bind, MissingOperatorsAreReportedTogether) {
  ModelMaker maker = relu_model();
  maker.import("my.domain", 3);
  for (const std::string name : {"a", "b", "c", "d"}) {
    maker.node("Frobnicate", {"y"}, {name}, "node_" + name).set_domain("my.domain");
  }
  maker.node("Nonsense", {"y"}, {"e"});
  auto& loop = maker.node("Loop", {"", "", "y"}, {"f"}, "loop");
  auto& body = *add_attribute(loop, "body", kGraphAttr).mutable_g();
  add_node(*body.add_node(), "Inner", {"y"}, {"z"}, "inner");
  const auto model = maker.parse();
  EXPECT_EQ(
      error_of([&] { model->bind({}); }),
      "unsupported: m.onnx: 3 operators or types are missing from Kilter: my.domain:Frobnicate@3 (4 nodes: 'node_a', "
      "'node_b', 'node_c', ...): unknown operator; ai.onnx:Nonsense@17 (1 node: 'e'): unknown operator; "
      "ai.onnx:Inner@17 (1 node: 'inner'): unknown operator; export the model without them (`kilter ops` lists the "
      "supported operators)");
  const auto missing = model->missing();
  ASSERT_EQ(missing.size(), 3u);
  EXPECT_EQ(missing[0].op, "my.domain:Frobnicate@3");
  EXPECT_THAT(missing[0].nodes, ElementsAre("node_a", "node_b", "node_c", "node_d"));
  EXPECT_TRUE(relu_model().parse()->missing().empty());
}

TEST(Bind, OperatorsAreFoundByTheirDomain) {
  const auto dequantise = [](const std::string& domain, const std::string& attribute) {
    ModelMaker maker;
    maker.import("com.microsoft", 1);
    maker.input("x", {2, 3}, 2);
    maker.input("scale", {}, 1);
    auto& node = maker.node("DequantizeLinear", {"x", "scale"}, {"y"}, "real");
    node.set_domain(domain);
    add_attribute(node, attribute, kIntAttr).set_i(0);
    maker.output("y", {2, 3});
    return maker;
  };
  // Only the operator of ai.onnx has blocks.
  EXPECT_EQ(dequantise("", "block_size").parse()->bind({}).outputs().size(), 1u);
  EXPECT_EQ(dequantise("com.microsoft", "axis").parse()->bind({}).outputs().size(), 1u);
  EXPECT_EQ(bind_error(dequantise("com.microsoft", "block_size")),
            "bad_model: m.onnx: DequantizeLinear 'real': unknown attribute 'block_size'; legal values are axis");
}

TEST(Bind, InternalOperatorsAreRefused) {
  ModelMaker maker = relu_model();
  maker.import("kilter", 1);
  maker.node("IntegerMatMul", {"x", "x"}, {"z"}, "mm").set_domain("kilter");
  EXPECT_THAT(
      error_of([&] { maker.parse()->bind({}); }),
      HasSubstr("kilter:IntegerMatMul@1 (1 node: 'mm'): only Kilter's own passes create operators of this domain"));
}

TEST(Bind, SequencesNeedAProgram) {
  ModelMaker maker = relu_model();
  auto& info = *maker.graph().add_input();
  info.set_name("list");
  info.mutable_type()->mutable_sequence_type()->mutable_elem_type()->mutable_tensor_type()->set_elem_type(1);
  maker.node("SequenceLength", {"list"}, {"n"}, "len");
  const auto model = maker.parse();
  ASSERT_EQ(model->inputs().size(), 2u);
  EXPECT_EQ(text(model->inputs()[1]), "sequence of f32[...]");
  EXPECT_TRUE(model->missing().empty());
  EXPECT_THROW(model->bind({}), NeedsProgram);
  EXPECT_THAT(error_of([&] { model->bind({}); }), HasSubstr("m.onnx: 'list' is not a tensor: sequence of f32[...]"));
}

TEST(Bind, MapsWithOtherKeysOrValuesAreReportedAsMissing) {
  for (const bool of_tensors : {false, true}) {
    ModelMaker maker = relu_model();
    auto& info = *maker.graph().add_input();
    info.set_name("table");
    auto& map = *info.mutable_type()->mutable_map_type();
    map.set_key_type(of_tensors ? 7 : 6);
    map.mutable_value_type()->mutable_tensor_type()->set_elem_type(1);
    if (of_tensors) map.mutable_value_type()->mutable_tensor_type()->mutable_shape()->add_dim()->set_dim_value(2);
    EXPECT_THAT(
        error_of([&] { maker.parse()->bind({}); }),
        HasSubstr("input of the graph (1 node: 'table'): a map with keys other than int64 and string, or with values "
                  "that are not tensors of one element; only tensors, maps, sequences of these and optional "
                  "values can be inputs and outputs"));
  }
}

TEST(Bind, MapsNeedAProgram) {
  ModelMaker maker = relu_model();
  auto& info = *maker.graph().add_input();
  info.set_name("table");
  info.mutable_type()->mutable_map_type()->set_key_type(8);
  info.mutable_type()->mutable_map_type()->mutable_value_type()->mutable_tensor_type()->set_elem_type(1);
  const auto model = maker.parse();
  EXPECT_EQ(text(model->inputs()[1]), "map from str to f32");
  EXPECT_THROW(model->bind({}), NeedsProgram);
  EXPECT_THAT(error_of([&] { model->bind({}); }), HasSubstr("m.onnx: 'table' is not a tensor: map from str to f32"));
}

TEST(Bind, OutputsThatAreInputsOrConstants) {
  ModelMaker maker;
  maker.input("x", {2});
  set_int64s(maker.initializer(), "c", {1, 2, 3});
  maker.node("Identity", {"c"}, {"d"});
  maker.output("x", {2});
  maker.output("c", {3}, 7);
  maker.output("d", {3}, 7);
  const Graph graph = maker.parse()->bind({});
  EXPECT_EQ(graph.outputs()[0].value, graph.inputs()[0]);
  EXPECT_EQ(graph.outputs()[1].value, graph.outputs()[2].value);
  EXPECT_TRUE(graph.order().empty());
}

TEST(Bind, UnusedNodesAndWeightsAreLeftOut) {
  ModelMaker maker = relu_model();
  maker.node("Abs", {"x"}, {"unused"});
  EXPECT_THAT(ops_of(maker.parse()->bind({})), ElementsAre("Relu"));
}

}  // namespace
}  // namespace kilter::onnx
