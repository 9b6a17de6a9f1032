#include "fuzz_onnx_seeds.h"

#include "../onnx/model_maker.h"

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

}  // namespace

std::string seed_model(unsigned seed) {
  switch (seed % 4) {
    case 0:
      return image_model().bytes();
    case 1:
      return shape_model().bytes();
    case 2:
      return function_model().bytes();
    default:
      return relu_model().bytes();
  }
}

}  // namespace kilter::onnx
