// GraphBuilder: the nodes that it accepts and folds, its errors for others, and the names that it gives.
#include "ops/support/builder.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>

#include "../base/error_of.h"
#include "ops/support/evaluate.h"

namespace kilter {
namespace {

class Builder : public testing::Test {
 protected:
  Builder() : builder_(graph_, 17) { x_ = builder_.input("x", DType::f32, {2, 3}); }

  std::vector<ValueId> add(std::string_view op, std::vector<ValueId> inputs, Attrs attrs = {},
                           const std::string& name = "n", std::vector<std::string> outputs = {}, int32_t opset = 0) {
    GraphBuilder::Options options;
    options.name = name;
    options.output_names = std::move(outputs);
    options.opset = opset;
    return builder_.add(op, std::move(inputs), std::move(attrs), options);
  }
  ValueId ints(std::vector<int64_t> values) {
    return builder_.constant(Tensor::of<int64_t>({static_cast<int64_t>(values.size())}, values));
  }
  const Value& value(ValueId id) const { return graph_.value(id); }

  Graph graph_;
  GraphBuilder builder_;
  ValueId x_ = kNone;
};

TEST_F(Builder, AddsANodeWithInferredType) {
  const ValueId y = add("Relu", {x_}, {}, "r", {"y"}).at(0);
  EXPECT_EQ(text(value(y).type), "f32[2,3]");
  EXPECT_EQ(value(y).name, "y");
  const Node& node = graph_.node(value(y).producer);
  EXPECT_EQ(node.name, "r");
  EXPECT_EQ(node.opset, 17);
  verify(graph_);
}

TEST_F(Builder, NamesComeFromTheOperatorWhenNoneAreGiven) {
  const ValueId a = builder_.add("Relu", {x_});
  const ValueId b = builder_.add("Relu", {x_});
  EXPECT_EQ(value(a).name, "Relu");
  EXPECT_EQ(value(b).name, "Relu_1");
  const ValueId c = add("Relu", {x_}, {}, "", {"wanted"}).at(0);
  EXPECT_EQ(graph_.node(value(c).producer).name, "wanted");
  const ValueId d = add("Relu", {x_}, {}, "", {"wanted"}).at(0);
  EXPECT_EQ(value(d).name, "wanted_1");
}

TEST_F(Builder, UnknownOperators) {
  EXPECT_EQ(error_of([&] { add("Fooo", {x_}); }, ErrorKind::unsupported),
            "Fooo 'n': unknown operator Fooo of domain ai.onnx at opset 17");
  EXPECT_EQ(error_of([&] { add("Where", {x_, x_, x_}, {}, "n", {}, 8); }, ErrorKind::unsupported),
            "Where 'n': unknown operator Where of domain ai.onnx at opset 8; known for opsets 9 and newer");
  GraphBuilder::Options options;
  options.domain = "com.example";
  EXPECT_EQ(error_of([&] { builder_.add("Add", {x_, x_}, {}, options); }, ErrorKind::unsupported),
            "Add 'Add': unknown operator Add of domain com.example at opset 1");
}

TEST_F(Builder, OperandCounts) {
  EXPECT_EQ(error_of([&] { add("Relu", {}); }, ErrorKind::bad_model), "Relu 'n': has 0 inputs, expected 1");
  EXPECT_EQ(error_of([&] { add("Relu", {x_, x_}); }, ErrorKind::bad_model), "Relu 'n': has 2 inputs, expected 1");
  EXPECT_EQ(error_of([&] { add("Add", {kNone, x_}); }, ErrorKind::bad_model),
            "Add 'n': input 0 is left out but required");
  EXPECT_EQ(error_of([&] { add("Relu", {x_}, {}, "n", {"a", "b"}); }, ErrorKind::bad_model),
            "Relu 'n': has 2 outputs, expected 1");
  EXPECT_EQ(text(value(add("Relu", {x_, kNone, kNone}).at(0)).type), "f32[2,3]");
}

TEST_F(Builder, Attributes) {
  EXPECT_EQ(error_of([&] { add("Relu", {x_}, {{"alpha", 1.0F}}); }, ErrorKind::bad_model),
            "Relu 'n': unknown attribute 'alpha'; the operator has none");
  EXPECT_EQ(error_of([&] { add("Concat", {x_, x_}); }, ErrorKind::bad_model),
            "Concat 'n': attribute 'axis' (int) is missing but required");
  EXPECT_EQ(error_of([&] { add("Concat", {x_, x_}, {{"axis", 1.0F}}); }, ErrorKind::bad_model),
            "Concat 'n': attribute 'axis' has type float, expected int");
  EXPECT_EQ(
      error_of([&] { add("Concat", {x_, x_}, {{"axis", int64_t{0}}, {"axes", int64_t{0}}}); }, ErrorKind::bad_model),
      "Concat 'n': unknown attribute 'axes'; legal values are axis");
}

TEST_F(Builder, ShapesAndTypesThatDoNotFit) {
  const ValueId four = builder_.input("four", DType::f32, {4});
  const ValueId whole = builder_.input("whole", DType::i32, {3});
  EXPECT_EQ(error_of([&] { add("Add", {x_, four}); }, ErrorKind::bad_model),
            "Add 'n': input shapes 2x3, 4 do not broadcast: aligned at the end, extents must be equal or 1");
  EXPECT_EQ(error_of([&] { add("Add", {x_, whole}); }, ErrorKind::bad_model),
            "Add 'n': input 1 has element type i32, expected f32 to match input 0");
  const ValueId text = builder_.input("text", DType::string, {3});
  EXPECT_TRUE(error_of([&] { add("Add", {text, text}); }, ErrorKind::bad_model)
                  .starts_with("Add 'n': input 0 has element type str, expected one of f32"));
}

TEST_F(Builder, AbsurdShapesAreErrorsThatNameTheNode) {
  const ValueId a = builder_.input("a", DType::f32, {1 << 20, 1});
  const ValueId b = builder_.input("b", DType::f32, {1, (1 << 20) + 1});
  EXPECT_EQ(error_of([&] { add("Add", {a, b}); }, ErrorKind::bad_model),
            "Add 'n': shape 1048576x1048577 has more than 2^40 elements; the limit is 2^40 per tensor");
}

TEST_F(Builder, NumbersAtTheEndsOfTheirRangeAreErrorsThatNameTheNode) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  const ValueId image = builder_.input("image", DType::f32, {1, 2, 3, 4});
  const auto wrong = [&](const std::string& op, Attrs attrs) {
    GraphBuilder::Options options;
    options.name = "n";
    options.domain = "kilter";
    return error_of([&] { builder_.add(op, {image}, std::move(attrs), options); }, ErrorKind::bad_model);
  };
  const std::vector<int64_t> all{0, 1, 4};
  EXPECT_EQ(wrong("TakePixels", {{"rows", std::vector<int64_t>{2, 1, kMost}}, {"columns", all}}),
            "TakePixels 'n': rows selects 9223372036854775807 from 2 on in steps of 1, which exceeds 0 to 2");
  EXPECT_EQ(
      wrong("TakePixels", {{"rows", std::vector<int64_t>{0, 0, kMost}}, {"columns", all}}),
      "TakePixels 'n': output: shape 1x2x9223372036854775807x4 has more than 2^40 elements; the limit is 2^40 per "
      "tensor");
  EXPECT_EQ(wrong("Frames", {{"first", kMost}, {"count", int64_t{1}}, {"frames", int64_t{3}}}),
            "Frames 'n': 9223372036854775807 + 3 exceeds the range of a dimension (64 bits)");
}

TEST_F(Builder, AShapeThatDependsOnDataNamesTheValue) {
  const ValueId shape = builder_.input("shape", DType::i64, {2});
  try {
    add("Reshape", {x_, shape});
    FAIL() << "no exception";
  } catch (const ShapeNeedsValue& needs) {
    EXPECT_EQ(needs.value, shape);
    EXPECT_EQ(needs.node, "Reshape 'n'");
  }
  EXPECT_TRUE(graph_.order().empty());
}

TEST_F(Builder, FoldsConstants) {
  const ValueId sum = add("Add", {ints({1, 2}), ints({10, 20})}, {}, "n", {"sum"}).at(0);
  ASSERT_TRUE(value(sum).constant.has_value());
  EXPECT_EQ(value(sum).constant->ints(), (std::vector<int64_t>{11, 22}));
  EXPECT_EQ(value(sum).name, "sum");
  EXPECT_TRUE(graph_.order().empty());
  EXPECT_FALSE(value(add("Add", {x_, x_}).at(0)).constant.has_value());
}

TEST_F(Builder, FoldsUpToTheLimit) {
  builder_.fold_limit = 2;
  EXPECT_TRUE(value(add("Add", {ints({1, 2}), ints({3})}).at(0)).constant.has_value());
  EXPECT_FALSE(value(add("Add", {ints({1, 2, 3}), ints({3})}).at(0)).constant.has_value());
  builder_.fold_limit = -1;
  EXPECT_FALSE(value(add("Add", {ints({1}), ints({3})}).at(0)).constant.has_value());
}

TEST_F(Builder, ReshapedConstantsShareTheirBytes) {
  const ValueId large = builder_.constant(Tensor(DType::f32, {100, 100}));
  const ValueId same = add("Reshape", {large, ints({50, 200})}).at(0);
  ASSERT_TRUE(value(same).constant.has_value());
  EXPECT_EQ(value(same).constant->shape(), (Shape{50, 200}));
  EXPECT_EQ(value(same).constant->raw(), value(large).constant->raw());
}

TEST_F(Builder, ZerosInReshapesOfEmptyTensorsAreLiteral) {
  const ValueId empty = builder_.input("empty", DType::f32, {2, 0, 3});
  const auto reshaped = [&](std::initializer_list<int64_t> shape, Attrs attrs = {}) {
    return text(value(builder_.add("Reshape", {empty, ints(shape)}, std::move(attrs), "n")).type);
  };
  EXPECT_EQ(reshaped({0, 3}), "f32[0,3]");
  EXPECT_EQ(reshaped({6, 0}), "f32[6,0]");
  EXPECT_EQ(reshaped({0, 0, 3}, {{"allowzero", int64_t{0}}}), "f32[2,0,3]") << "0 copies a dimension of the operand";
  EXPECT_EQ(reshaped({0, -1, 3}, {}), "f32[2,0,3]");
  EXPECT_EQ(text(value(builder_.add("Reshape", {x_, ints({0, 3})}, {}, "n")).type), "f32[2,3]");
}

TEST_F(Builder, ConstantNodesOfAnySizeFold) {
  const ValueId big = add("Constant", {}, {{"value", Tensor(DType::f32, {100, 100})}}).at(0);
  EXPECT_TRUE(value(big).constant.has_value());
}

TEST_F(Builder, ShapeComputationsBecomeConstants) {
  const ValueId shape = add("Shape", {x_}).at(0);
  ASSERT_TRUE(value(shape).constant.has_value());
  EXPECT_EQ(value(shape).constant->ints(), (std::vector<int64_t>{2, 3}));
  const ValueId first = add("Gather", {shape, ints({1})}, {{"axis", int64_t{0}}}).at(0);
  const ValueId target = add("Concat", {first, ints({-1})}, {{"axis", int64_t{0}}}).at(0);
  EXPECT_EQ(text(value(add("Reshape", {x_, target}).at(0)).type), "f32[3,2]");
  EXPECT_EQ(graph_.order().size(), 1U);
}

TEST_F(Builder, UnwantedOutputsAreOmitted) {
  const std::vector<ValueId> parts = add("Split", {x_, ints({1, 2})}, {{"axis", int64_t{1}}}, "s", {"", "b"});
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_EQ(parts[0], kNone);
  EXPECT_EQ(text(value(parts[1]).type), "f32[2,2]");
  const ValueId k = builder_.constant(Tensor::of<float>({3}, {1, 2, 3}));
  const std::vector<ValueId> folded = add("Split", {k, ints({1, 2})}, {}, "s", {"", "c"});
  EXPECT_EQ(folded[0], kNone);
  EXPECT_TRUE(value(folded[1]).constant->same(Tensor::of<float>({2}, {2, 3})));
  verify(graph_);
}

TEST_F(Builder, ExpansionsTakeTheRequestedNames) {
  const ValueId y = add("ReduceL2", {x_}, {{"axes", std::vector<int64_t>{1}}}, "norm", {"norm"}).at(0);
  EXPECT_EQ(value(y).name, "norm");
  EXPECT_EQ(text(value(y).type), "f32[2,1]");
  EXPECT_GT(graph_.order().size(), 1U);
  for (NodeId id : graph_.order()) EXPECT_NE(graph_.node(id).op->name, "ReduceL2");
  EXPECT_EQ(builder_.opset(), 17);
  const ValueId z = add("ReduceL2", {x_}, {{"axes", std::vector<int64_t>{1}}}, "again", {"norm"}).at(0);
  EXPECT_TRUE(value(z).name.starts_with("norm_")) << value(z).name;
  verify(graph_);
}

TEST_F(Builder, AnExpansionThatIsItsInputKeepsTheInputsName) {
  const ValueId y = add("Dropout", {x_}, {}, "d", {"y"}).at(0);
  EXPECT_EQ(y, x_);
  EXPECT_EQ(value(x_).name, "x");
  EXPECT_TRUE(graph_.order().empty());
}

TEST_F(Builder, FailedExpansionLeavesTheBuilderUnchanged) {
  EXPECT_TRUE(error_of([&] { add("ReduceL2", {x_}, {{"axes", std::vector<int64_t>{5}}}); }, ErrorKind::bad_model)
                  .starts_with("ReduceL2 'n': "));
  EXPECT_EQ(builder_.opset(), 17);
}

TEST_F(Builder, RunReferenceOmitsUnwantedOutputs) {
  Node node;
  node.name = "a";
  node.op = find_op("", "Add", 17);
  node.outputs = {kNone};
  const std::vector<Tensor> out = run_reference(node, {Tensor::scalar(1.0F), Tensor::scalar(2.0F)}, {TensorType{}});
  ASSERT_EQ(out.size(), 1U);
  EXPECT_FALSE(out[0].defined());
}

// The result is empty, but a list of the indices along its other dimension would need 2^40 numbers.
TEST_F(Builder, EmptyTensorsAreNotComputed) {
  const ValueId empty = builder_.constant(Tensor(DType::f32, {0, 1}));
  const ValueId y = add("CenterCropPad", {empty, ints({0, int64_t{1} << 40})}, {}, "c", {}, 18).at(0);
  ASSERT_TRUE(value(y).constant.has_value());
  EXPECT_EQ(text(value(y).type), "f32[0,1099511627776]");
}

TEST_F(Builder, VerifyTypesFindsWrongShapes) {
  graph_.name = "g";
  const ValueId y = add("Relu", {x_}, {}, "r", {"y"}).at(0);
  const ValueId z = add("Add", {y, x_}, {}, "a", {"z"}).at(0);
  graph_.change_value(z).type.layout.block = 8;
  verify_types(graph_);
  graph_.change_value(y).type.shape = {1, 3};
  EXPECT_EQ(error_of([&] { verify_types(graph_); }, ErrorKind::internal),
            "graph 'g' is invalid: Relu 'r': output 0, 'y', has type f32[1,3], but its operands give f32[2,3]");
}

TEST(BroadcastShapes, FollowNumpy) {
  const auto shapes = [](std::vector<Shape> all) { return broadcast_shapes(all); };
  EXPECT_EQ(shapes({}), Shape{});
  EXPECT_EQ(shapes({{2, 1}, {3}}), (Shape{2, 3}));
  EXPECT_EQ(shapes({{}, {4, 1}, {1, 5}}), (Shape{4, 5}));
  EXPECT_EQ(shapes({{0}, {1}}), Shape{0});
  EXPECT_EQ(shapes({{1}, {0}}), Shape{0});
  EXPECT_EQ(shapes({{2}, {3}}), std::nullopt);
  EXPECT_EQ(shapes({{0}, {2}}), std::nullopt);
}

TEST(NormalAxis, CountsFromTheEnd) {
  Node node;
  node.name = "n";
  EXPECT_EQ(normal_axis(node, -1, 4), 3);
  EXPECT_EQ(normal_axis(node, 0, 4), 0);
  EXPECT_EQ(error_of([&] { normal_axis(node, 4, 4); }, ErrorKind::bad_model),
            "node 'n': axis 4 is out of range for rank 4; legal values are -4 to 3");
  EXPECT_EQ(error_of([&] { normal_axis(node, -5, 4); }, ErrorKind::bad_model),
            "node 'n': axis -5 is out of range for rank 4; legal values are -4 to 3");
}

TEST(Evaluate, RunsNodesInOrderAndReportsThem) {
  Graph graph;
  GraphBuilder builder(graph);
  const ValueId x = builder.input("x", DType::f32, {3});
  const ValueId y = builder.add("Relu", {x});
  const ValueId z = builder.add("Add", {y, x});
  graph.add_output(z, "z");
  graph.add_output(y, "y");
  graph.add_output(x, "x");
  std::vector<NodeId> seen;
  const std::vector<Tensor> out = evaluate(graph, {Tensor::of<float>({3}, {-1, 0, 2})},
                                           [&](NodeId id, const std::vector<Tensor>&) { seen.push_back(id); });
  EXPECT_EQ(seen, graph.order());
  EXPECT_TRUE(out[0].same(Tensor::of<float>({3}, {-1, 0, 4})));
  EXPECT_TRUE(out[1].same(Tensor::of<float>({3}, {0, 0, 2})));
  EXPECT_TRUE(out[2].same(Tensor::of<float>({3}, {-1, 0, 2})));
  EXPECT_EQ(error_of([&] { evaluate(graph, {}); }, ErrorKind::bad_input), "graph '' has 1 inputs, got 0");
  EXPECT_EQ(error_of([&] { evaluate(graph, {Tensor(DType::f32, {4})}); }, ErrorKind::bad_input),
            "input 'x': expected f32[3], got f32[4]");
}

}  // namespace
}  // namespace kilter
