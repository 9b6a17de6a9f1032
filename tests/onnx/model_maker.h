// Models for the tests, built from ONNX's protobuf messages.
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/error.h"
#include "onnx/model.h"
#include "onnx/schema.h"

namespace kilter::onnx {

/// A dimension of a declared input or output: a size or a name.
using TestDim = std::variant<int, const char*>;
using TestDims = std::vector<TestDim>;

inline void set_tensor_type(pb::ValueInfoProto& info, const std::string& name, const TestDims& dims,
                            int32_t element_type = 1) {
  info.set_name(name);
  auto& type = *info.mutable_type()->mutable_tensor_type();
  type.set_elem_type(element_type);
  type.mutable_shape();
  for (const TestDim& dim : dims) {
    auto& made = *type.mutable_shape()->add_dim();
    if (const int* size = std::get_if<int>(&dim)) {
      made.set_dim_value(*size);
    } else {
      made.set_dim_param(std::get<const char*>(dim));
    }
  }
}

inline pb::NodeProto& add_node(pb::NodeProto& node, const std::string& op, const std::vector<std::string>& inputs,
                               const std::vector<std::string>& outputs, const std::string& name) {
  node.set_op_type(op);
  node.set_name(name);
  for (const auto& input : inputs) node.add_input(input);
  for (const auto& output : outputs) node.add_output(output);
  return node;
}

inline pb::AttributeProto& add_attribute(pb::NodeProto& node, const std::string& name, int32_t kind) {
  auto& attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(kind);
  return attribute;
}

inline void set_int64s(pb::TensorProto& tensor, const std::string& name, std::initializer_list<int64_t> values) {
  tensor.set_name(name);
  tensor.set_data_type(7);
  tensor.add_dims(static_cast<int64_t>(values.size()));
  for (const int64_t value : values) tensor.add_int64_data(value);
}

inline void set_floats(pb::TensorProto& tensor, const std::string& name, const Shape& shape,
                       const std::vector<float>& values) {
  tensor.set_name(name);
  tensor.set_data_type(1);
  for (const int64_t d : shape) tensor.add_dims(d);
  tensor.set_raw_data(values.data(), values.size() * sizeof(float));
}

class ModelMaker {
 public:
  explicit ModelMaker(int64_t opset = 17) {
    proto.set_ir_version(8);
    import("", opset);
    graph().set_name("g");
  }
  pb::GraphProto& graph() { return *proto.mutable_graph(); }
  void import(const std::string& domain, int64_t version) {
    auto& entry = *proto.add_opset_import();
    entry.set_domain(domain);
    entry.set_version(version);
  }
  void input(const std::string& name, const TestDims& dims, int32_t element_type = 1) {
    set_tensor_type(*graph().add_input(), name, dims, element_type);
  }
  void output(const std::string& name, const TestDims& dims, int32_t element_type = 1) {
    set_tensor_type(*graph().add_output(), name, dims, element_type);
  }
  pb::NodeProto& node(const std::string& op, const std::vector<std::string>& inputs,
                      const std::vector<std::string>& outputs, const std::string& name = "") {
    return add_node(*graph().add_node(), op, inputs, outputs, name);
  }
  pb::TensorProto& initializer() { return *graph().add_initializer(); }

  std::string bytes() const { return proto.SerializeAsString(); }
  std::shared_ptr<const Model> parse(const std::filesystem::path& folder = {}) const {
    return parse_bytes(bytes(), folder);
  }
  static std::shared_ptr<const Model> parse_bytes(const std::string& bytes, const std::filesystem::path& folder = {}) {
    return Model::parse(std::as_bytes(std::span(bytes.data(), bytes.size())), "m.onnx", folder);
  }

  pb::ModelProto proto;
};

/// Returns y = Relu(x) over f32[2,3].
inline ModelMaker relu_model() {
  ModelMaker maker;
  maker.input("x", {2, 3});
  maker.node("Relu", {"x"}, {"y"}, "relu");
  maker.output("y", {2, 3});
  return maker;
}

/// Returns the error that `f` throws as "kind: message", or "no error" when it throws none.
template <class F>
std::string error_of(F&& f) {
  static constexpr const char* kKinds[] = {"usage", "bad_model", "bad_input",    "unsupported",
                                           "io",    "internal",  "out_of_memory"};
  try {
    f();
  } catch (const Error& error) {
    return std::string(kKinds[static_cast<size_t>(error.kind())]) + ": " + error.message();
  }
  return "no error";
}

}  // namespace kilter::onnx
