// Graphs written as ONNX and read back; failures of the writer.
#include "onnx/save.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "../base/scratch_folder.h"
#include "base/files.h"
#include "model_maker.h"
#include "ops/support/builder.h"

namespace kilter::onnx {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class Save : public testing::Test {
 protected:
  std::filesystem::path file(const char* name = "m.onnx") const { return scratch_.path() / name; }

  /// Returns the protobuf message that a file contains.
  static pb::ModelProto proto_of(const std::filesystem::path& path) {
    pb::ModelProto proto;
    EXPECT_TRUE(proto.ParseFromString(read_file(path)));
    return proto;
  }
  static std::string op_names(const pb::ModelProto& proto) {
    std::string names;
    for (const auto& node : proto.graph().node()) names += node.op_type() + " ";
    return names;
  }

  ScratchFolder scratch_;
};

/// Returns z = LeakyRelu(Conv(x, w)), with integers, lists of integers, strings and floats as attributes.
Graph conv_graph(int32_t opset) {
  Graph graph;
  graph.name = "conv";
  GraphBuilder builder(graph, opset);
  const ValueId x = builder.input("x", DType::f32, {1, 2, 5, 5});
  Tensor w(DType::f32, {4, 2, 3, 3});
  for (int64_t i = 0; i < w.elems(); ++i) w.data<float>()[i] = static_cast<float>(i);
  Attrs attrs{{"pads", std::vector<int64_t>{1, 1, 1, 1}}, {"auto_pad", std::string("NOTSET")}, {"group", int64_t{1}}};
  const ValueId y = builder.add("Conv", {x, builder.constant(w, "w")}, std::move(attrs), "conv");
  const ValueId z = builder.add("LeakyRelu", {y}, {{"alpha", 0.25f}}, "leaky");
  graph.add_output(z, "z");
  return graph;
}

TEST_F(Save, RoundTrips) {
  const Graph graph = conv_graph(17);
  save(graph, file(), 17);
  const auto model = Model::load(file());
  EXPECT_EQ(model->ir_version(), 8);
  EXPECT_EQ(model->opsets().at(""), 17);
  const Graph again = model->bind({});
  ASSERT_EQ(again.order().size(), 2u);
  const Node& conv = again.node(again.order()[0]);
  EXPECT_EQ(conv.name, "conv");
  EXPECT_EQ(conv.ints_attr("pads"), (std::vector<int64_t>{1, 1, 1, 1}));
  EXPECT_EQ(conv.string_attr("auto_pad", ""), "NOTSET");
  EXPECT_EQ(conv.int_attr("group", 0), 1);
  EXPECT_EQ(again.node(again.order()[1]).float_attr("alpha", 0), 0.25f);
  const Node& original = graph.node(graph.order()[0]);
  EXPECT_TRUE(again.value(conv.inputs[1]).constant->same(*graph.value(original.inputs[1]).constant));
  EXPECT_EQ(again.outputs().at(0).name, "z");
  EXPECT_EQ(text(again.type(again.outputs()[0].value)), "f32[1,4,5,5]");
}

TEST_F(Save, NewOpsetsGetANewerIrVersion) {
  save(conv_graph(19), file(), 19);
  EXPECT_EQ(proto_of(file()).ir_version(), 10);
}

TEST_F(Save, LargeWeightsAreStoredExternally) {
  Graph graph = conv_graph(17);
  save_with_limit(graph, file(), 17, 100);
  const pb::ModelProto proto = proto_of(file());
  ASSERT_EQ(proto.graph().initializer_size(), 1);
  EXPECT_EQ(proto.graph().initializer(0).data_location(), 1);
  EXPECT_EQ(proto.graph().initializer(0).external_data(0).value(), "m.onnx.weights");
  EXPECT_EQ(std::filesystem::file_size(file("m.onnx.weights")), 4u * 2 * 9 * sizeof(float));
  const Graph again = Model::load(file())->bind({});
  EXPECT_EQ(again.value(again.node(again.order()[0]).inputs[1]).constant->data<float>()[71], 71.0f);
}

TEST_F(Save, ExternalTensorsAreAligned) {
  Graph graph;
  GraphBuilder builder(graph, 17);
  ValueId x = builder.input("x", DType::f32, {65});
  for (int i = 0; i < 3; ++i) {
    const Tensor weight = Tensor::of<float>({65}, std::vector<float>(65, static_cast<float>(i)));
    x = builder.add("Add", {x, builder.constant(weight, "w")}, {}, "add");
  }
  const ValueId small = builder.constant(Tensor::of<float>({1}, {7}), "small");
  graph.add_output(builder.add("Add", {x, small}), "y");
  save_with_limit(graph, file(), 17, 0);
  const pb::ModelProto proto = proto_of(file());
  std::vector<std::string> offsets;
  for (const auto& tensor : proto.graph().initializer()) {
    if (tensor.data_location() == 1) offsets.push_back(tensor.external_data(1).value());
  }
  EXPECT_THAT(offsets, ElementsAre("0", "320", "640"));
  const Graph again = Model::load(file())->bind({});
  EXPECT_EQ(again.value(again.node(again.order()[2]).inputs[1]).constant->data<float>()[64], 2.0f);
}

TEST_F(Save, OutputsMayShareValuesOrBeInputs) {
  Graph graph;
  GraphBuilder builder(graph, 17);
  const ValueId x = builder.input("x", DType::f32, {2});
  const ValueId c = builder.constant(Tensor::of<int64_t>({2}, {1, 2}), "c");
  const ValueId y = builder.add("Relu", {x}, {}, "relu");
  graph.add_output(y, "first");
  graph.add_output(y, "second");
  graph.add_output(x, "copy of x");
  graph.add_output(c, "c");
  graph.add_output(x, "x");
  save(graph, file(), 17);
  EXPECT_EQ(op_names(proto_of(file())), "Relu Identity Identity ");
  const Graph again = Model::load(file())->bind({});
  ASSERT_EQ(again.outputs().size(), 5u);
  EXPECT_EQ(again.outputs()[1].name, "second");
  EXPECT_EQ(again.value(again.outputs()[3].value).constant->ints(), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(again.outputs()[4].value, again.inputs()[0]);
}

TEST_F(Save, OutputNamesTakePrecedenceOverInnerNames) {
  Graph graph;
  GraphBuilder builder(graph, 17);
  const ValueId x = builder.input("x", DType::f32, {2});
  GraphBuilder::Options options;
  options.output_names = {"y"};
  const ValueId inner = builder.add("Relu", {x}, {}, options).at(0);
  graph.add_output(builder.add("Abs", {inner}), "y");
  save(graph, file(), 17);
  const Graph again = Model::load(file())->bind({});
  EXPECT_EQ(again.node(again.value(again.outputs()[0].value).producer).op->name, "Abs");
}

TEST_F(Save, StringsAndScalars) {
  Graph graph;
  Tensor words(DType::string, {2});
  words.strings() = {"a", "b"};
  graph.add_output(graph.add_constant("words", words), "words");
  graph.add_output(graph.add_constant("pi", Tensor::scalar(3.0f)), "pi");
  graph.add_output(graph.add_constant("flag", Tensor::scalar(true)), "flag");
  save(graph, file(), 17);
  const Graph again = Model::load(file())->bind({});
  EXPECT_EQ(again.value(again.outputs()[0].value).constant->strings(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(text(again.type(again.outputs()[1].value)), "f32[]");
  EXPECT_TRUE(*again.value(again.outputs()[2].value).constant->data<bool>());
}

/// Returns y = Squeeze(Mul(x, x)).
Graph squeeze_graph(int32_t opset) {
  Graph graph;
  GraphBuilder builder(graph, opset);
  const ValueId x = builder.input("x", DType::f32, {1, 2});
  const ValueId squared = builder.add("Mul", {x, x}, {}, "mul");
  graph.add_output(builder.add("Squeeze", {squared}, {}, "squeeze"), "y");
  return graph;
}

TEST_F(Save, NodesOfAnotherOpsetAreWrittenIfTheirFormIsTheSame) {
  save(conv_graph(17), file(), 22);
  save(squeeze_graph(28), file(), 13);
  EXPECT_EQ(Model::load(file())->bind({}).order().size(), 2u);
  EXPECT_EQ(error_of([&] { save(squeeze_graph(28), file("n.onnx"), 12); }),
            "unsupported: " + file("n.onnx").string() +
                ": Squeeze 'squeeze' follows opset 28, but the file is written for opset 12, in which its form "
                "differs; build the graph for that opset or write the file for opset 28");
  EXPECT_THAT(error_of([&] { save(conv_graph(17), file("n.onnx"), 10); }), HasSubstr("follows opset 17"));
  EXPECT_THAT(error_of([&] { save(conv_graph(17), file("n.onnx"), 5); }), HasSubstr("opset 5; Kilter writes 7 to 28"));
  EXPECT_FALSE(std::filesystem::exists(file("n.onnx")));
}

TEST_F(Save, NewAttributesNeedANewOpset) {
  Graph graph;
  GraphBuilder builder(graph, 17);
  const ValueId x = builder.input("x", DType::f32, {2, 3});
  const ValueId shape = builder.constant(Tensor::of<int64_t>({2}, {3, 2}));
  graph.add_output(builder.add("Reshape", {x, shape}, {{"allowzero", int64_t{1}}}, "r"), "y");
  EXPECT_EQ(error_of([&] { save(graph, file(), 14); }), "no error");
  EXPECT_THAT(error_of([&] { save(graph, file(), 13); }), HasSubstr("Reshape 'r' follows opset 17"));
}

TEST_F(Save, FullDiskAndMissingFolder) {
  EXPECT_EQ(error_of([&] { save(conv_graph(17), "/dev/full", 17); }),
            "io: cannot write file '/dev/full': No space left on device");
  EXPECT_THAT(error_of([&] { save(conv_graph(17), file("no/m.onnx"), 17); }), HasSubstr("No such file or directory"));
  EXPECT_TRUE(std::filesystem::is_empty(scratch_.path()));
}

TEST_F(Save, AFailureLeavesTheOldFile) {
  save(conv_graph(17), file(), 17);
  const std::string before = read_file(file());
  EXPECT_NE(error_of([&] { save(squeeze_graph(28), file(), 12); }), "no error");
  EXPECT_EQ(read_file(file()), before);
}

}  // namespace
}  // namespace kilter::onnx
