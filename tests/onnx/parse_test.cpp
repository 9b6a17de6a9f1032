// Files that are not models, versions that Kilter does not know, and malformed graphs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "model_maker.h"

namespace kilter::onnx {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::string parse_error(const ModelMaker& maker) {
  return error_of([&] { maker.parse(); });
}
std::string bytes_error(const std::string& bytes) {
  return error_of([&] { ModelMaker::parse_bytes(bytes); });
}

TEST(Parse, ReadsPortsAndVersions) {
  ModelMaker maker(13);
  maker.input("x", {"batch", 3, -1, 0});
  maker.node("Relu", {"x"}, {"y"});
  maker.output("y", {});
  const auto model = maker.parse();
  EXPECT_EQ(model->name(), "m.onnx");
  EXPECT_EQ(model->ir_version(), 8);
  EXPECT_EQ(model->opsets(), (std::map<std::string, int64_t>{{"", 13}}));
  ASSERT_EQ(model->inputs().size(), 1u);
  EXPECT_EQ(text(model->inputs()[0]), "f32[batch,3,?,?]");
  ASSERT_EQ(model->outputs().size(), 1u);
  EXPECT_EQ(model->outputs()[0].name, "y");
}

TEST(Parse, UnknownRank) {
  ModelMaker maker = relu_model();
  maker.graph().mutable_input(0)->mutable_type()->mutable_tensor_type()->clear_shape();
  EXPECT_EQ(text(maker.parse()->inputs()[0]), "f32[...]");
}

TEST(Parse, EmptyFile) {
  EXPECT_EQ(
      bytes_error(""),
      "bad_model: m.onnx: not a valid ONNX protobuf: 0 bytes without an IR version; expected a binary ONNX model: "
      "the file is empty, truncated or in another format");
}

TEST(Parse, OtherFormats) {
  EXPECT_EQ(
      bytes_error("{\"graph\": {}}"),
      "bad_model: m.onnx: not a valid ONNX protobuf: this is a text, not an ONNX file; expected a binary ONNX model");
  EXPECT_THAT(bytes_error("\x89PNG\r\n\x1a\n and more"), HasSubstr("this is an image, not an ONNX file;"));
  EXPECT_THAT(bytes_error("PK\x03\x04 and more"), HasSubstr("this is a ZIP archive, as torch.save writes it"));
}

TEST(Parse, EveryTruncationIsAnError) {
  const std::string bytes = relu_model().bytes();
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_THAT(bytes_error(bytes.substr(0, size)), StartsWith("bad_model: m.onnx: ")) << size;
  }
  EXPECT_THAT(bytes_error(bytes.substr(0, bytes.size() / 2)),
              HasSubstr("not a valid ONNX protobuf: cannot be parsed beyond byte "));
}

/// Any outcome is legal except a crash or an internal error.
TEST(Parse, BitFlipsNeverCrash) {
  ModelMaker maker;
  maker.input("x", {"n", 3});
  set_int64s(maker.initializer(), "shape", {3, -1});
  set_floats(maker.initializer(), "w", {3, 2}, {1, 2, 3, 4, 5, 6});
  maker.node("MatMul", {"x", "w"}, {"a"});
  maker.node("Reshape", {"a", "shape"}, {"b"});
  maker.node("Shape", {"b"}, {"s"});
  maker.node("ConstantOfShape", {"s"}, {"c"});
  maker.node("Add", {"b", "c"}, {"y"});
  maker.output("y", {3, "m"});
  const std::string bytes = maker.bytes();
  std::mt19937 random(7);
  for (int round = 0; round < 5000; ++round) {
    std::string damaged = bytes;
    for (auto flips = 1 + random() % 3; flips > 0; --flips) {
      damaged[random() % damaged.size()] ^= static_cast<char>(1u << random() % 8);
    }
    const std::string error = error_of([&] {
      const auto model = ModelMaker::parse_bytes(damaged);
      Model::Shapes shapes;
      for (const Port& port : model->inputs()) {
        Shape& shape = shapes[port.name];
        for (const Dim& dim : port.dims.value_or(std::vector<Dim>{})) shape.push_back(dim.size.value_or(3));
      }
      model->bind(shapes);
    });
    ASSERT_THAT(error, testing::Not(StartsWith("internal"))) << "round " << round;
  }
}

TEST(Parse, IrVersions) {
  for (const int64_t version : {3, 8, 14}) {
    ModelMaker maker = relu_model();
    maker.proto.set_ir_version(version);
    EXPECT_EQ(parse_error(maker), "no error") << version;
  }
  ModelMaker maker = relu_model();
  maker.proto.set_ir_version(15);
  EXPECT_EQ(parse_error(maker),
            "unsupported: m.onnx: IR version 15; Kilter reads 3 to 14: export the model with an older ONNX release");
  maker.proto.set_ir_version(2);
  EXPECT_EQ(parse_error(maker),
            "unsupported: m.onnx: IR version 2; Kilter reads 3 to 14: export the model with a newer ONNX release");
}

TEST(Parse, Opsets) {
  for (const int64_t opset : {1, 7, 28}) {
    ModelMaker maker = relu_model();
    maker.proto.mutable_opset_import(0)->set_version(opset);
    EXPECT_EQ(parse_error(maker), "no error") << opset;
  }
  for (const int64_t opset : {0, 29, -1}) {
    ModelMaker maker = relu_model();
    maker.proto.mutable_opset_import(0)->set_version(opset);
    EXPECT_EQ(parse_error(maker), "unsupported: m.onnx: opset " + std::to_string(opset) +
                                      " of ai.onnx; Kilter reads 1 to 28: convert the model with the ONNX version "
                                      "converter");
  }
  ModelMaker twice = relu_model();
  twice.import("ai.onnx", 16);
  EXPECT_EQ(parse_error(twice),
            "bad_model: m.onnx: the opset imports give two versions of domain 'ai.onnx': 17 and 16");
  ModelMaker none = relu_model();
  none.proto.clear_opset_import();
  EXPECT_EQ(parse_error(none), "bad_model: m.onnx: Relu 'relu': no opset is imported for the node's domain 'ai.onnx'");
}

TEST(Parse, CycleNamesItsNodes) {
  ModelMaker maker;
  maker.input("x", {2});
  maker.node("Relu", {"x"}, {"outside"}, "outside");
  maker.node("Add", {"x", "c"}, {"a"}, "first");
  maker.node("Relu", {"a"}, {"b"}, "second");
  maker.node("Relu", {"b"}, {"c"}, "third");
  maker.node("Relu", {"c"}, {"y"}, "after");
  maker.output("y", {2});
  EXPECT_EQ(
      parse_error(maker),
      "bad_model: m.onnx: the graph has a cycle of 3 nodes: Relu 'second' -> Relu 'third' -> Add 'first' -> back to "
      "the first; a graph must be acyclic");
}

TEST(Parse, NodeThatReadsItself) {
  ModelMaker maker;
  maker.node("Relu", {"y"}, {"y"}, "self");
  maker.output("y", {2});
  EXPECT_THAT(parse_error(maker), HasSubstr("the graph has a cycle of 1 nodes: Relu 'self' -> back to the first"));
}

TEST(Parse, UnsortedNodesAreSorted) {
  ModelMaker maker;
  maker.input("x", {2});
  maker.node("Relu", {"b"}, {"y"}, "last");
  maker.node("Abs", {"a"}, {"b"}, "middle");
  maker.node("Neg", {"x"}, {"a"}, "first");
  maker.output("y", {2});
  const Graph graph = maker.parse()->bind({});
  ASSERT_EQ(graph.order().size(), 3u);
  EXPECT_EQ(graph.node(graph.order()[0]).name, "first");
  EXPECT_EQ(graph.node(graph.order()[2]).name, "last");
}

TEST(Parse, MissingProducer) {
  ModelMaker maker = relu_model();
  maker.graph().mutable_node(0)->set_input(0, "nowhere");
  EXPECT_EQ(parse_error(maker), "bad_model: m.onnx: Relu 'relu' reads 'nowhere', which nothing in the graph produces");
  ModelMaker output = relu_model();
  output.graph().mutable_output(0)->set_name("z");
  EXPECT_EQ(parse_error(output),
            "bad_model: m.onnx: output 'z' of the graph reads 'z', which nothing in the graph produces");
}

TEST(Parse, DuplicateNames) {
  ModelMaker nodes = relu_model();
  nodes.node("Abs", {"x"}, {"y"}, "abs");
  EXPECT_EQ(
      parse_error(nodes),
      "bad_model: m.onnx: the name 'y' is defined twice in the graph: by Relu 'relu' and by Abs 'abs'; every name "
      "must be unique");
  ModelMaker inputs = relu_model();
  inputs.input("x", {2, 3});
  EXPECT_EQ(parse_error(inputs),
            "bad_model: m.onnx: the name 'x' is used by two inputs of the graph; every name must be unique");
  ModelMaker initializers = relu_model();
  set_int64s(initializers.initializer(), "w", {1});
  set_int64s(initializers.initializer(), "w", {1});
  EXPECT_EQ(parse_error(initializers),
            "bad_model: m.onnx: the name 'w' is used by two initializers of the graph; every name must be unique");
  ModelMaker input_made = relu_model();
  input_made.node("Abs", {"y"}, {"x"}, "abs");
  EXPECT_THAT(parse_error(input_made),
              HasSubstr("the name 'x' is defined twice in the graph: by an input or initializer and by Abs 'abs'"));
  ModelMaker outputs = relu_model();
  outputs.output("y", {2, 3});
  EXPECT_THAT(parse_error(outputs), HasSubstr("the name 'y' is used by two outputs of the graph"));
}

TEST(Parse, Attributes) {
  ModelMaker twice = relu_model();
  add_attribute(*twice.graph().mutable_node(0), "a", kIntAttr);
  add_attribute(*twice.graph().mutable_node(0), "a", kIntAttr);
  EXPECT_EQ(parse_error(twice), "bad_model: m.onnx: Relu 'relu': attribute 'a' is given twice");
  ModelMaker kind = relu_model();
  add_attribute(*kind.graph().mutable_node(0), "a", 77);
  EXPECT_EQ(
      parse_error(kind),
      "bad_model: m.onnx: Relu 'relu': attribute 'a' has kind 77; legal values are 1 (FLOAT) to 14 (TYPE_PROTOS)");
  ModelMaker reference = relu_model();
  add_attribute(*reference.graph().mutable_node(0), "a", kIntAttr).set_ref_attr_name("b");
  EXPECT_EQ(parse_error(reference),
            "bad_model: m.onnx: Relu 'relu': attribute 'a' refers to the function attribute 'b', but is not inside a "
            "function");
}

TEST(Parse, NodesWithoutOperatorOrOutputs) {
  ModelMaker op = relu_model();
  op.graph().mutable_node(0)->clear_op_type();
  EXPECT_THAT(parse_error(op), HasSubstr("node number 0 ( 'relu') has no operator"));
  ModelMaker outputs = relu_model();
  outputs.node("Abs", {"x"}, {}, "abs");
  EXPECT_THAT(parse_error(outputs), HasSubstr("Abs 'abs' has no outputs"));
}

TEST(Parse, HostileNamesArePrintedSafely) {
  ModelMaker maker = relu_model();
  maker.graph().mutable_node(0)->set_input(0, std::string("\x1b[2J\n") + std::string(5000, 'a'));
  const std::string error = parse_error(maker);
  EXPECT_THAT(error, HasSubstr("reads '\\x1b[2J\\x0aaaa"));
  EXPECT_LT(error.size(), 400u);
}

TEST(Parse, DeepNestingIsRefused) {
  ModelMaker maker;
  maker.input("c", {}, 9);
  pb::GraphProto* graph = &maker.graph();
  for (int depth = 0; depth < 60; ++depth) {
    auto& node = add_node(*graph->add_node(), "If", {"c"}, {"y" + std::to_string(depth)}, "");
    graph = add_attribute(node, "then_branch", kGraphAttr).mutable_g();
  }
  EXPECT_THAT(parse_error(maker), HasSubstr("not a valid ONNX protobuf: cannot be parsed beyond byte"));
}

TEST(Load, MissingFileAndFolder) {
  EXPECT_EQ(error_of([] { Model::load("/nonexistent/m.onnx"); }),
            "io: cannot read file '/nonexistent/m.onnx': No such file or directory");
  EXPECT_EQ(error_of([] { Model::load("/"); }), "io: cannot read file '/': it is a directory; expected a file");
}

}  // namespace
}  // namespace kilter::onnx
