// A model with a loop, for tests of programs.
#pragma once

#include <string>

#include "model_maker.h"

namespace kilter::onnx {

inline void set_bool(pb::TensorProto& tensor, const std::string& name, bool value) {
  tensor.set_name(name);
  tensor.set_data_type(9);
  tensor.add_int32_data(value ? 1 : 0);
}

/// x doubles `n` times: y is the last result, and `all` has all of them. With the condition "true", it doubles
/// infinitely.
inline ModelMaker doubling_loop(const std::string& condition = "") {
  ModelMaker maker;
  maker.input("n", {}, 7);
  maker.input("x", {2});
  if (condition == "true") set_bool(maker.initializer(), "true", true);
  maker.node("Abs", {"x"}, {"start"}, "abs");
  auto& loop = maker.node("Loop", {condition == "true" ? "" : "n", condition, "start"}, {"y", "all"}, "loop");
  auto& body = *add_attribute(loop, "body", kGraphAttr).mutable_g();
  set_tensor_type(*body.add_input(), "i", {}, 7);
  set_tensor_type(*body.add_input(), "go", {}, 9);
  set_tensor_type(*body.add_input(), "v", {2});
  add_node(*body.add_node(), "Identity", {"go"}, {"go_on"}, "");
  add_node(*body.add_node(), "Add", {"v", "v"}, {"w"}, "twice");
  set_tensor_type(*body.add_output(), "go_on", {}, 9);
  set_tensor_type(*body.add_output(), "w", {2});
  set_tensor_type(*body.add_output(), "w", {2});
  maker.output("y", {2});
  maker.output("all", {"n", 2});
  return maker;
}

}  // namespace kilter::onnx
