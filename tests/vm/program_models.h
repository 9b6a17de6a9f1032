// Networks that run as programs, for tests of compiled files.
#pragma once

#include <string>
#include <vector>

#include "../onnx/loop_model.h"
#include "../onnx/model_maker.h"

namespace kilter::onnx {

inline pb::GraphProto& body_of(pb::NodeProto& node, const std::string& name) {
  return *add_attribute(node, name, kGraphAttr).mutable_g();
}

/// y contains Exp of those elements of Abs(x) . w that are not 0, where w is 4 x 4.
inline ModelMaker picking_model() {
  ModelMaker maker;
  maker.input("x", {"n", 4});
  std::vector<float> w(16);
  for (size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(i % 5) - 1;
  set_floats(maker.initializer(), "w", {4, 4}, w);
  maker.node("Abs", {"x"}, {"a"}, "abs");
  maker.node("MatMul", {"a", "w"}, {"p"}, "product");
  maker.node("NonZero", {"p"}, {"where"}, "find");
  maker.node("Transpose", {"where"}, {"rows"});
  maker.node("GatherND", {"p", "rows"}, {"picked"}, "pick");
  maker.node("Exp", {"picked"}, {"y"}, "exp");
  maker.output("y", {"m"});
  return maker;
}

/// y is Relu(x) if any element of x is above 0, otherwise -x; a branch also captures c = x + 1.
inline ModelMaker choosing_model() {
  ModelMaker maker;
  maker.input("x", {2, 3});
  set_floats(maker.initializer(), "zero", {}, {0});
  set_floats(maker.initializer(), "one", {}, {1});
  add_attribute(maker.node("ReduceMax", {"x"}, {"most"}), "keepdims", kIntAttr).set_i(0);
  maker.node("Greater", {"most", "zero"}, {"cond"});
  maker.node("Add", {"x", "one"}, {"c"});
  auto& choice = maker.node("If", {"cond"}, {"y"}, "if");
  auto& then_branch = body_of(choice, "then_branch");
  add_node(*then_branch.add_node(), "Relu", {"x"}, {"t"}, "");
  set_tensor_type(*then_branch.add_output(), "t", {2, 3});
  auto& else_branch = body_of(choice, "else_branch");
  add_node(*else_branch.add_node(), "Neg", {"c"}, {"e"}, "");
  set_tensor_type(*else_branch.add_output(), "e", {2, 3});
  maker.output("y", {2, 3});
  return maker;
}

/// sums contains the running sums of the rows of x.
inline ModelMaker scanning_model() {
  ModelMaker maker;
  maker.input("x", {5, 3});
  set_floats(maker.initializer(), "start", {3}, {0, 0, 0});
  auto& scan = maker.node("Scan", {"start", "x"}, {"last", "sums"}, "scan");
  add_attribute(scan, "num_scan_inputs", kIntAttr).set_i(1);
  auto& body = body_of(scan, "body");
  set_tensor_type(*body.add_input(), "s", {3});
  set_tensor_type(*body.add_input(), "row", {3});
  add_node(*body.add_node(), "Add", {"s", "row"}, {"t"}, "");
  set_tensor_type(*body.add_output(), "t", {3});
  set_tensor_type(*body.add_output(), "t", {3});
  maker.output("last", {3});
  maker.output("sums", {5, 3});
  return maker;
}

/// parts contains the rows of x as a sequence, and one is row `at` of them.
inline ModelMaker splitting_model() {
  ModelMaker maker;
  maker.input("x", {"n", 2});
  maker.input("at", {}, 7);
  add_attribute(maker.node("SplitToSequence", {"x"}, {"parts"}, "split"), "keepdims", kIntAttr).set_i(0);
  maker.node("SequenceAt", {"parts", "at"}, {"one"}, "take");
  auto& parts = *maker.graph().add_output();
  parts.set_name("parts");
  auto& element = *parts.mutable_type()->mutable_sequence_type()->mutable_elem_type()->mutable_tensor_type();
  element.set_elem_type(1);
  maker.output("one", {2});
  return maker;
}

/// The boxes that non-maximum suppression keeps.
inline ModelMaker suppressing_model() {
  ModelMaker maker;
  maker.input("boxes", {1, 20, 4});
  maker.input("scores", {1, 1, 20});
  set_int64s(maker.initializer(), "most", {5});
  set_floats(maker.initializer(), "overlap", {1}, {0.5F});
  maker.node("NonMaxSuppression", {"boxes", "scores", "most", "overlap"}, {"kept"}, "nms");
  maker.output("kept", {"m", 3}, 7);
  return maker;
}

/// For each row of x, y contains a map from 7, 2 and 9 to its elements.
inline ModelMaker mapping_model() {
  ModelMaker maker;
  maker.import("ai.onnx.ml", 1);
  maker.input("x", {"n", 3});
  auto& zip = maker.node("ZipMap", {"x"}, {"y"}, "zip");
  zip.set_domain("ai.onnx.ml");
  auto& labels = add_attribute(zip, "classlabels_int64s", kIntsAttr);
  for (const int64_t label : {7, 2, 9}) labels.add_ints(label);
  auto& output = *maker.graph().add_output();
  output.set_name("y");
  auto& map = *output.mutable_type()->mutable_sequence_type()->mutable_elem_type()->mutable_map_type();
  map.set_key_type(7);
  map.mutable_value_type()->mutable_tensor_type()->set_elem_type(1);
  return maker;
}

/// c contains the strings of a, each followed by "!".
inline ModelMaker joining_model() {
  ModelMaker maker(20);
  maker.input("a", {"n"}, 8);
  auto& end = maker.initializer();
  end.set_name("end"), end.set_data_type(8), end.add_dims(1), end.add_string_data("!");
  maker.node("StringConcat", {"a", "end"}, {"c"}, "join");
  maker.output("c", {"n"}, 8);
  return maker;
}

}  // namespace kilter::onnx
