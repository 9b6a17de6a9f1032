#include "fuzz_onnx_seeds.h"

#include <variant>

#include "../onnx/model_maker.h"
#include "ops/support/builder.h"
#include "ops/support/cases.h"

namespace kilter::onnx {
namespace {

void set_bool(pb::TensorProto& tensor, const std::string& name, bool value) {
  tensor.set_name(name);
  tensor.set_data_type(9);
  tensor.add_int32_data(value ? 1 : 0);
}

ModelMaker image_model() {
  ModelMaker maker;
  maker.input("x", {"n", 2, 6, 6});
  set_floats(maker.initializer(), "w", {2, 2, 3, 3}, std::vector<float>(36, 0.5f));
  auto& conv = maker.node("Conv", {"x", "w"}, {"a"});
  auto& pads = add_attribute(conv, "pads", kIntsAttr);
  for (int i = 0; i < 4; ++i) pads.add_ints(1);
  maker.node("Relu", {"a"}, {"b"});
  auto& pool = maker.node("MaxPool", {"b"}, {"c"});
  auto& kernel = add_attribute(pool, "kernel_shape", kIntsAttr);
  kernel.add_ints(2);
  kernel.add_ints(2);
  set_int64s(maker.initializer(), "target", {0, -1});
  maker.node("Reshape", {"c", "target"}, {"d"});
  add_attribute(maker.node("Softmax", {"d"}, {"y"}), "axis", kIntAttr).set_i(1);
  maker.output("y", {"n", "m"});
  return maker;
}

ModelMaker shape_model() {
  ModelMaker maker;
  maker.input("x", {"n", 4, 5});
  maker.input("shape", {2}, 7);
  maker.node("Shape", {"x"}, {"s"});
  set_int64s(maker.initializer(), "index", {0});
  set_int64s(maker.initializer(), "minus", {-1});
  maker.node("Gather", {"s", "index"}, {"g"});
  add_attribute(maker.node("Concat", {"g", "minus"}, {"t"}), "axis", kIntAttr);
  maker.node("Reshape", {"x", "t"}, {"a"});
  maker.node("ConstantOfShape", {"s"}, {"b"});
  maker.node("Expand", {"b", "s"}, {"c"});
  maker.node("Tile", {"a", "shape"}, {"y"});
  maker.output("y", {"p", "q"});
  maker.output("c", {"n", 4, 5});
  return maker;
}

ModelMaker function_model() {
  ModelMaker maker;
  maker.import("my", 1);
  maker.input("x", {2});
  auto& call = maker.node("F", {"x"}, {"a"}, "call");
  call.set_domain("my");
  add_attribute(call, "slope", kFloatAttr).set_f(0.25f);
  auto& function = *maker.proto.add_functions();
  function.set_name("F");
  function.set_domain("my");
  function.add_input("a");
  function.add_output("b");
  function.add_attribute("slope");
  function.add_opset_import()->set_version(17);
  auto& leaky = add_node(*function.add_node(), "LeakyRelu", {"a"}, {"b"}, "leaky");
  add_attribute(leaky, "alpha", kFloatAttr).set_ref_attr_name("slope");
  set_bool(maker.initializer(), "flag", true);
  auto& choice = maker.node("If", {"flag"}, {"y"}, "if");
  for (const char* name : {"then_branch", "else_branch"}) {
    auto& branch = *add_attribute(choice, name, kGraphAttr).mutable_g();
    add_node(*branch.add_node(), "Gelu", {"a"}, {"r"}, "");
    set_tensor_type(*branch.add_output(), "r", {2});
  }
  maker.proto.mutable_opset_import(0)->set_version(20);
  maker.output("y", {2});
  return maker;
}

/// Adds the inputs and the output with which the body of a Loop starts.
void begin_loop(pb::GraphProto& body) {
  set_tensor_type(*body.add_input(), "i", {}, 7);
  set_tensor_type(*body.add_input(), "go", {}, 9);
  set_tensor_type(*body.add_output(), "on", {}, 9);
}

/// A Loop around an If around a Scan, each of which reads values around it.
ModelMaker loop_model() {
  ModelMaker maker;
  maker.input("x", {2, 3});
  maker.input("count", {}, 7);
  set_floats(maker.initializer(), "most", {}, {9});
  set_floats(maker.initializer(), "zero", {3}, {0, 0, 0});
  auto& body = *add_attribute(maker.node("Loop", {"count", "", "x"}, {"y", "all"}), "body", kGraphAttr).mutable_g();
  begin_loop(body);
  set_tensor_type(*body.add_input(), "v", {2, 3});
  add_attribute(add_node(*body.add_node(), "ReduceSum", {"v"}, {"sum"}, ""), "keepdims", kIntAttr);
  add_node(*body.add_node(), "Less", {"sum", "most"}, {"on"}, "");
  auto& choice = add_node(*body.add_node(), "If", {"on"}, {"w"}, "");
  auto& then_branch = *add_attribute(choice, "then_branch", kGraphAttr).mutable_g();
  auto& scan = add_node(*then_branch.add_node(), "Scan", {"zero", "v"}, {"last", "rows"}, "");
  add_attribute(scan, "num_scan_inputs", kIntAttr).set_i(1);
  add_attribute(scan, "scan_output_axes", kIntsAttr).add_ints(0);
  auto& each = *add_attribute(scan, "body", kGraphAttr).mutable_g();
  set_tensor_type(*each.add_input(), "s", {3});
  set_tensor_type(*each.add_input(), "row", {3});
  add_node(*each.add_node(), "Add", {"s", "row"}, {"next"}, "");
  add_node(*each.add_node(), "Mul", {"next", "sum"}, {"scaled"}, "");
  set_tensor_type(*each.add_output(), "next", {3});
  set_tensor_type(*each.add_output(), "scaled", {3});
  set_tensor_type(*then_branch.add_output(), "rows", {2, 3});
  auto& else_branch = *add_attribute(choice, "else_branch", kGraphAttr).mutable_g();
  add_node(*else_branch.add_node(), "Neg", {"x"}, {"n"}, "");
  set_tensor_type(*else_branch.add_output(), "n", {2, 3});
  set_tensor_type(*body.add_output(), "w", {2, 3});
  set_tensor_type(*body.add_output(), "sum", {});
  maker.output("y", {2, 3});
  maker.output("all", {"n"});
  return maker;
}

/// Sequences, optional values, and shapes that depend on data.
ModelMaker sequence_model() {
  ModelMaker maker(18);
  maker.input("x", {4, 3});
  set_int64s(maker.initializer(), "two", {2});
  maker.node("SplitToSequence", {"x"}, {"parts"});
  auto& map = maker.node("SequenceMap", {"parts", "x"}, {"mapped"});
  auto& each = *add_attribute(map, "body", kGraphAttr).mutable_g();
  set_tensor_type(*each.add_input(), "part", {1, 3});
  set_tensor_type(*each.add_input(), "same", {4, 3});
  add_attribute(add_node(*each.add_node(), "Concat", {"part", "same"}, {"long"}, ""), "axis", kIntAttr);
  set_tensor_type(*each.add_output(), "long", {5, 3});
  auto& body = *add_attribute(maker.node("Loop", {"two", "", "mapped"}, {"grown"}), "body", kGraphAttr).mutable_g();
  begin_loop(body);
  body.add_input()->set_name("list");
  add_node(*body.add_node(), "Identity", {"go"}, {"on"}, "");
  add_node(*body.add_node(), "SequenceInsert", {"list", "x", "i"}, {"longer"}, "");
  body.add_output()->set_name("longer");
  maker.node("SequenceErase", {"grown", "two"}, {"rest"});
  maker.node("SequenceAt", {"rest", "two"}, {"one"});
  maker.node("Optional", {"one"}, {"maybe"});
  maker.node("OptionalHasElement", {"maybe"}, {"has"});
  add_attribute(maker.node("ConcatFromSequence", {"rest"}, {"joined"}), "axis", kIntAttr);
  maker.node("NonZero", {"joined"}, {"where"});
  maker.node("Shape", {"where"}, {"shape"});
  maker.node("Expand", {"two", "shape"}, {"y"});
  maker.output("y", {2, "n"}, 7);
  maker.output("has", {}, 9);
  return maker;
}

/// A sparse tensor of f32 [2,3] with elements at (0,1) and (1,2), whose indices are positions or coordinates.
void set_sparse(pb::SparseTensorProto& sparse, const std::string& name, bool coordinates) {
  set_floats(*sparse.mutable_values(), name, {2}, {1, 2});
  pb::TensorProto& indices = *sparse.mutable_indices();
  indices.set_data_type(7);
  indices.add_dims(2);
  if (coordinates) indices.add_dims(2);
  for (const int64_t i : coordinates ? Shape{0, 1, 1, 2} : Shape{1, 5}) indices.add_int64_data(i);
  sparse.add_dims(2), sparse.add_dims(3);
}

/// Sparse tensors with positions and with coordinates: an initializer, a constant, and an initializer of a branch.
ModelMaker sparse_model() {
  ModelMaker maker;
  maker.input("x", {2, 3});
  maker.input("yes", {}, 9);
  set_sparse(*maker.graph().add_sparse_initializer(), "w", false);
  auto& constant = maker.node("Constant", {}, {"c"});
  set_sparse(*add_attribute(constant, "sparse_value", kSparseTensorAttr).mutable_sparse_tensor(), "", true);
  maker.node("Sum", {"x", "w", "c"}, {"s"});
  auto& choice = maker.node("If", {"yes"}, {"y"});
  for (const char* name : {"then_branch", "else_branch"}) {
    auto& branch = *add_attribute(choice, name, kGraphAttr).mutable_g();
    set_sparse(*branch.add_sparse_initializer(), "inner", true);
    add_node(*branch.add_node(), "Mul", {"s", "inner"}, {"r"}, "");
    set_tensor_type(*branch.add_output(), "r", {2, 3});
  }
  maker.output("y", {2, 3});
  return maker;
}

void set_map_type(pb::TypeProto& type, int32_t key, int32_t value) {
  type.mutable_map_type()->set_key_type(key);
  type.mutable_map_type()->mutable_value_type()->mutable_tensor_type()->set_elem_type(value);
}

/// Maps as inputs, as outputs, and as elements of a sequence.
ModelMaker map_model() {
  ModelMaker maker;
  maker.import("ai.onnx.ml", 1);
  maker.input("x", {2, 3});
  maker.graph().add_input()->set_name("words");
  set_map_type(*maker.graph().mutable_input(1)->mutable_type(), 8, 1);
  set_int64s(maker.initializer(), "first", {0});
  const auto ml_node = [&](const char* op, const char* x, const char* y) -> pb::NodeProto& {
    auto& node = maker.node(op, {x}, {y});
    node.set_domain("ai.onnx.ml");
    return node;
  };
  auto& labels = add_attribute(ml_node("ZipMap", "x", "maps"), "classlabels_int64s", kIntsAttr);
  for (const int64_t label : {4, 1, 2}) labels.add_ints(label);
  maker.node("SequenceAt", {"maps", "first"}, {"map"});
  auto& cast = ml_node("CastMap", "map", "row");
  add_attribute(cast, "map_form", kStringAttr).set_s("SPARSE");
  add_attribute(cast, "max_map", kIntAttr).set_i(5);
  auto& vectorizer = ml_node("DictVectorizer", "words", "column");
  add_attribute(vectorizer, "string_vocabulary", kStringsAttr).add_strings("a");
  maker.output("row", {1, 5});
  maker.output("column", {1, 1});
  auto& maps = *maker.graph().add_output();
  maps.set_name("maps");
  set_map_type(*maps.mutable_type()->mutable_sequence_type()->mutable_elem_type(), 7, 1);
  return maker;
}

void set_values(pb::TensorProto& proto, const Tensor& tensor) {
  proto.set_data_type(number_of_dtype(tensor.dtype()));
  for (const int64_t d : tensor.shape()) proto.add_dims(d);
  if (tensor.dtype() == DType::string) {
    for (const std::string& value : tensor.strings()) proto.add_string_data(value);
  } else {
    proto.set_raw_data(tensor.raw(), static_cast<size_t>(tensor.bytes()));
  }
}

/// Sets the field of the attribute that matches the kind of the value.
struct AttributeSetter {
  pb::AttributeProto& attribute;

  void operator()(int64_t value) const { set(kIntAttr).set_i(value); }
  void operator()(float value) const { set(kFloatAttr).set_f(value); }
  void operator()(const std::string& value) const { set(kStringAttr).set_s(value); }
  void operator()(const std::vector<int64_t>& values) const {
    set(kIntsAttr).mutable_ints()->Add(values.begin(), values.end());
  }
  void operator()(const std::vector<float>& values) const {
    set(kFloatsAttr).mutable_floats()->Add(values.begin(), values.end());
  }
  void operator()(const std::vector<std::string>& values) const {
    for (const std::string& value : values) set(kStringsAttr).add_strings(value);
  }
  void operator()(const Tensor& tensor) const { set_values(*set(kTensorAttr).mutable_t(), tensor); }

 private:
  pb::AttributeProto& set(int32_t kind) const {
    attribute.set_type(kind);
    return attribute;
  }
};

/// Builds the node of an operator's test case. With `constants`, every operand is a constant, so that the node is
/// folded.
ModelMaker case_model(const OpDef& op, CaseText text, bool constants) {
  const ParsedCase parsed = parse_case(op, text);
  ModelMaker maker(op.domain.empty() ? parsed.opset : kNewestOpset);
  if (!op.domain.empty()) maker.import(std::string(op.domain), parsed.opset);
  pb::NodeProto& node = maker.node(std::string(op.name), {}, {});
  node.set_domain(std::string(op.domain));
  for (size_t i = 0; i < parsed.operands.size(); ++i) {
    const CaseOperand& operand = parsed.operands[i];
    const std::string name = "in" + std::to_string(i);
    node.add_input(operand.kind == CaseOperand::Kind::absent ? "" : name);
    if (operand.kind == CaseOperand::Kind::absent) continue;
    if (constants || operand.kind == CaseOperand::Kind::constant) {
      pb::TensorProto& tensor = maker.initializer();
      tensor.set_name(name);
      set_values(tensor, operand.tensor);
    } else {
      TestDims dims;
      for (const int64_t d : operand.tensor.shape()) dims.emplace_back(static_cast<int>(d));
      maker.input(name, dims, number_of_dtype(operand.tensor.dtype()));
    }
  }
  for (const auto& [key, value] : parsed.attrs) std::visit(AttributeSetter{add_attribute(node, key, 0)}, value);
  const Graph graph = make_case(op, parsed, text).graph;
  for (size_t i = 0; i < parsed.outputs; ++i) {
    const std::string name = "out" + std::to_string(i);
    node.add_output(name);
    const TensorType& type = graph.type(graph.outputs()[i].value);
    set_tensor_type(*maker.graph().add_output(), name, {}, number_of_dtype(type.dtype));
  }
  return maker;
}

}  // namespace

std::string seed_model(unsigned seed) {
  const unsigned rest = seed / 32;
  switch (seed % 32) {
    case 0:
      return image_model().bytes();
    case 1:
      return shape_model().bytes();
    case 2:
      return function_model().bytes();
    case 3:
      return relu_model().bytes();
    case 4:
      return loop_model().bytes();
    case 5:
      return sequence_model().bytes();
    case 6:
      return sparse_model().bytes();
    case 7:
      return map_model().bytes();
    default: {
      const OpDef& op = *all_ops()[rest % all_ops().size()];
      if (op.cases.empty() || op.domain == "kilter") return relu_model().bytes();
      return case_model(op, op.cases[rest / all_ops().size() % op.cases.size()], seed % 2 == 0).bytes();
    }
  }
}

}  // namespace kilter::onnx
