#include "model_mutator.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "../onnx/model_maker.h"
#include "fuzz_onnx_seeds.h"
#include "onnx/schema.h"
#include "ops/support/builder.h"

namespace kilter::onnx {
namespace {

constexpr std::array<int64_t, 24> kNumbers = {0,
                                              1,
                                              -1,
                                              2,
                                              3,
                                              -2,
                                              4,
                                              5,
                                              7,
                                              8,
                                              16,
                                              -7,
                                              64,
                                              255,
                                              1000,
                                              4096,
                                              65536,
                                              std::numeric_limits<int32_t>::max(),
                                              std::numeric_limits<int32_t>::min(),
                                              int64_t{1} << 32,
                                              int64_t{1} << 40,
                                              int64_t{1} << 62,
                                              std::numeric_limits<int64_t>::max(),
                                              std::numeric_limits<int64_t>::min()};
constexpr std::array<float, 8> kReals = {
    0, -0.0f, 1, -1.5f, 0.25f, 1e30f, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()};
constexpr std::array<const char*, 14> kWords = {"",       "SAME_UPPER", "SAME_LOWER", "VALID",        "NOTSET",
                                                "linear", "cubic",      "nearest",    "constant",     "reflect",
                                                "edge",   "wrap",       "a,b->ab",    "...i,ij->...j"};
/// Maximum bytes of data generated to fit a shape; a larger shape gets none.
constexpr int64_t kMostDataBytes = 4096;

class Mutator {
 public:
  Mutator(pb::ModelProto& model, unsigned seed) : model_(model), graph_(*model.mutable_graph()), random_(seed) {}

  void change() {
    switch (below(15)) {
      case 0:
      case 1:
        return change_input();
      case 2:
      case 3:
        return change_tensor();
      case 4:
      case 5:
      case 6:
        return with_node([&](pb::NodeProto& node) { change_attribute(node); });
      case 7:
        return with_node([&](pb::NodeProto& node) { node.set_op_type(std::string(any_op().name)); });
      case 8:
        return with_node([&](pb::NodeProto& node) { change_edges(node); });
      case 9:
        return change_opset();
      case 10:
        return feed_constant();
      case 11:
        return with_node([&](pb::NodeProto& node) { move_attribute(node); });
      case 12:
        return with_node([&](pb::NodeProto& node) { change_body(node); });
      default:
        return splice();
    }
  }

 private:
  size_t below(size_t count) { return count == 0 ? 0 : random_() % count; }
  /// Draws mostly small numbers, because large ones are refused before anything else is checked.
  int64_t number() { return kNumbers[below(below(4) == 0 ? kNumbers.size() : 10)]; }
  template <class Field>
  auto* any(Field* field) {
    return field->empty() ? nullptr : field->Mutable(static_cast<int>(below(static_cast<size_t>(field->size()))));
  }
  const OpDef& any_op() { return *all_ops()[below(all_ops().size())]; }
  int32_t any_type() { return static_cast<int32_t>(below(below(8) == 0 ? 30 : 17)); }

  template <class F>
  void with_node(F&& use) {
    auto* nodes = graph_.mutable_node();
    if (!model_.functions().empty() && below(3) == 0) nodes = any(model_.mutable_functions())->mutable_node();
    while (pb::NodeProto* node = any(nodes)) {
      pb::GraphProto* body = any_body(*node);
      if (body == nullptr || below(3) == 0) return use(*node);
      nodes = body->mutable_node();
    }
  }

  /// Draws a graph inside a node; null if there is none.
  pb::GraphProto* any_body(pb::NodeProto& node) {
    std::vector<pb::GraphProto*> bodies;
    for (pb::AttributeProto& attribute : *node.mutable_attribute()) {
      if (attribute.has_g()) bodies.push_back(attribute.mutable_g());
    }
    return bodies.empty() ? nullptr : bodies[below(bodies.size())];
  }

  /// Changes the inputs or outputs of a graph inside a node.
  void change_body(pb::NodeProto& node) {
    pb::GraphProto* body = any_body(node);
    if (body == nullptr) return change_edges(node);
    auto* ports = below(2) == 0 ? body->mutable_input() : body->mutable_output();
    switch (below(4)) {
      case 0:
        set_tensor_type(*ports->Add(), any_name(), {2}, any_type());
        return;
      case 1:
        if (!ports->empty()) ports->RemoveLast();
        return;
      case 2:
        if (ports->size() > 1) ports->SwapElements(0, static_cast<int>(below(static_cast<size_t>(ports->size()))));
        return;
      default:
        if (pb::ValueInfoProto* info = any(ports)) info->set_name(any_name());
    }
  }

  template <class Numbers>
  void change_numbers(Numbers* numbers) {
    const size_t at = below(static_cast<size_t>(numbers->size()));
    switch (numbers->empty() ? 0 : below(4)) {
      case 0:
        numbers->Add(static_cast<typename Numbers::value_type>(number()));
        break;
      case 1:
        numbers->RemoveLast();
        break;
      default:
        numbers->Set(static_cast<int>(at), static_cast<typename Numbers::value_type>(number()));
    }
  }

  void change_input() {
    pb::ValueInfoProto* info = any(below(8) == 0 ? graph_.mutable_output() : graph_.mutable_input());
    if (info == nullptr) return;
    auto& type = *info->mutable_type()->mutable_tensor_type();
    if (below(3) == 0) return type.set_elem_type(any_type());
    auto& dims = *type.mutable_shape()->mutable_dim();
    const size_t choice = below(6);
    if (choice == 0 || dims.empty()) {
      dims.Add()->set_dim_value(number());
    } else if (choice == 1) {
      dims.RemoveLast();
    } else if (choice == 2) {
      any(&dims)->set_dim_param("n");
    } else {
      any(&dims)->set_dim_value(number());
    }
  }

  /// Gives the tensor as many bytes of data as its shape requires.
  void fit_data(pb::TensorProto& tensor) {
    const auto type = dtype_of_number(tensor.data_type());
    if (!type || *type == DType::string) return;
    int64_t bytes = size_bytes(*type);
    for (const int64_t dim : tensor.dims()) {
      if (dim < 0 || dim > kMostDataBytes || (bytes *= dim) > kMostDataBytes) return;
    }
    std::string data = tensor.raw_data();
    data.resize(static_cast<size_t>(bytes), static_cast<char>(below(4)));
    tensor.clear_float_data();
    tensor.clear_int32_data();
    tensor.clear_int64_data();
    tensor.clear_double_data();
    tensor.clear_uint64_data();
    tensor.set_raw_data(data);
  }

  void change_value(pb::TensorProto& tensor) {
    if (!tensor.int64_data().empty()) return change_numbers(tensor.mutable_int64_data());
    std::string& data = *tensor.mutable_raw_data();
    std::array<char, 8> bytes{};
    size_t size = 8;
    if (tensor.data_type() == 1) {
      size = 4;
      std::memcpy(bytes.data(), &kReals[below(kReals.size())], size);
    } else {
      const int64_t value = number();
      const auto type = dtype_of_number(tensor.data_type());
      if (type && *type != DType::string) size = static_cast<size_t>(size_bytes(*type));
      std::memcpy(bytes.data(), &value, size);
    }
    if (data.size() < size) return;
    std::memcpy(data.data() + below(data.size() / size) * size, bytes.data(), size);
  }

  void change_data(pb::TensorProto& tensor) {
    switch (below(4)) {
      case 0:
        tensor.set_data_type(any_type());
        return fit_data(tensor);
      case 1:
        change_numbers(tensor.mutable_dims());
        return fit_data(tensor);
      default:
        return change_value(tensor);
    }
  }

  void change_tensor() {
    if (pb::TensorProto* tensor = any(graph_.mutable_initializer())) change_data(*tensor);
  }

  void change_attribute(pb::NodeProto& node) {
    pb::AttributeProto* attribute = any(node.mutable_attribute());
    if (attribute == nullptr) return add_attribute(node);
    switch (attribute->type()) {
      case kIntAttr:
        return attribute->set_i(number());
      case kFloatAttr:
        return attribute->set_f(kReals[below(kReals.size())]);
      case kStringAttr:
        return attribute->set_s(kWords[below(kWords.size())]);
      case kIntsAttr:
        return change_numbers(attribute->mutable_ints());
      case kFloatsAttr:
        attribute->add_floats(kReals[below(kReals.size())]);
        return;
      case kTensorAttr:
        return change_data(*attribute->mutable_t());
      default:
        return attribute->set_type(static_cast<int32_t>(below(15)));
    }
  }

  /// Draws an attribute name of some operator, usually the node's own.
  void add_attribute(pb::NodeProto& node) {
    const OpDef* op = below(4) == 0 ? &any_op() : find_op("", node.op_type(), kNewestOpset);
    if (op == nullptr || op->attrs.empty()) return;
    const AttrSpec& spec = op->attrs[below(op->attrs.size())];
    pb::AttributeProto& attribute = *node.add_attribute();
    attribute.set_name(std::string(spec.name));
    if (spec.type == "int") {
      attribute.set_type(kIntAttr);
      attribute.set_i(number());
    } else if (spec.type == "float") {
      attribute.set_type(kFloatAttr);
      attribute.set_f(kReals[below(kReals.size())]);
    } else if (spec.type == "string") {
      attribute.set_type(kStringAttr);
      attribute.set_s(kWords[below(kWords.size())]);
    } else if (spec.type == "ints") {
      attribute.set_type(kIntsAttr);
      for (size_t i = below(5); i > 0; --i) attribute.add_ints(number());
    } else if (spec.type == "tensor") {
      attribute.set_type(kTensorAttr);
      attribute.mutable_t()->set_data_type(any_type());
      change_numbers(attribute.mutable_t()->mutable_dims());
      fit_data(*attribute.mutable_t());
    }
  }

  void move_attribute(pb::NodeProto& node) {
    if (below(2) == 0 || node.attribute().empty()) return add_attribute(node);
    auto& attributes = *node.mutable_attribute();
    attributes.SwapElements(static_cast<int>(below(static_cast<size_t>(attributes.size()))), attributes.size() - 1);
    attributes.RemoveLast();
  }

  std::string any_name() {
    if (pb::NodeProto* node = below(2) == 0 ? any(graph_.mutable_node()) : nullptr) {
      if (std::string* output = any(node->mutable_output())) return *output;
    }
    if (pb::TensorProto* tensor = below(2) == 0 ? any(graph_.mutable_initializer()) : nullptr) return tensor->name();
    const pb::ValueInfoProto* info = any(graph_.mutable_input());
    return info == nullptr ? "" : info->name();
  }

  void change_edges(pb::NodeProto& node) {
    auto& inputs = *node.mutable_input();
    switch (below(5)) {
      case 0:
        *inputs.Add() = any_name();
        return;
      case 1:
        if (!inputs.empty()) inputs.RemoveLast();
        return;
      case 2:
        if (std::string* input = any(&inputs)) input->clear();
        return;
      case 3:
        *node.mutable_output()->Add() = "more" + std::to_string(below(1000));
        return;
      default:
        if (std::string* input = any(&inputs)) *input = any_name();
    }
  }

  void change_opset() {
    auto* imports = model_.mutable_opset_import();
    if (!model_.functions().empty() && below(2) == 0) imports = any(model_.mutable_functions())->mutable_opset_import();
    pb::OperatorSetIdProto* import = any(imports);
    if (import != nullptr)
      import->set_version((kOldestOpset + static_cast<int64_t>(below(kNewestOpset - kOldestOpset + 1))));
  }

  /// Turns an input into an initializer, so that nodes that read it are folded.
  void feed_constant() {
    const pb::ValueInfoProto* info = any(graph_.mutable_input());
    if (info == nullptr) return;
    pb::TensorProto& tensor = *graph_.add_initializer();
    tensor.set_name(info->name());
    tensor.set_data_type(info->type().tensor_type().elem_type());
    for (const auto& dim : info->type().tensor_type().shape().dim()) {
      tensor.add_dims(std::clamp<int64_t>(dim.dim_value(), 1, 1 << 20));
    }
    fit_data(tensor);
  }

  /// Adds the nodes of another model, in which a value of this model replaces the first input.
  void splice() {
    pb::ModelProto other;
    if (!other.ParseFromString(seed_model(static_cast<unsigned>(random_())))) return;
    const std::string suffix = "_" + std::to_string(below(1000));
    const std::string joined = other.graph().input().empty() ? "" : other.graph().input(0).name();
    const std::string here = any_name();
    for (pb::NodeProto& node : *other.mutable_graph()->mutable_node()) {
      for (std::string& name : *node.mutable_input())
        name = name == joined ? here : name.empty() ? name : name + suffix;
      for (std::string& name : *node.mutable_output()) {
        if (!name.empty()) name += suffix;
      }
      graph_.add_node()->Swap(&node);
    }
    for (pb::TensorProto& tensor : *other.mutable_graph()->mutable_initializer()) {
      tensor.set_name(tensor.name() + suffix);
      graph_.add_initializer()->Swap(&tensor);
    }
    for (pb::ValueInfoProto& info : *other.mutable_graph()->mutable_input()) {
      if (info.name() == joined) continue;
      info.set_name(info.name() + suffix);
      graph_.add_input()->Swap(&info);
    }
    for (pb::ValueInfoProto& info : *other.mutable_graph()->mutable_output()) {
      info.set_name(info.name() + suffix);
      graph_.add_output()->Swap(&info);
    }
  }

  pb::ModelProto& model_;
  pb::GraphProto& graph_;
  std::minstd_rand random_;
};

}  // namespace

std::string mutate_model(const std::string& bytes, unsigned seed) {
  pb::ModelProto model;
  if (!model.ParseFromString(bytes)) return {};
  Mutator mutator(model, seed);
  for (unsigned i = 0; i <= seed % 4; ++i) mutator.change();
  return model.SerializeAsString();
}

}  // namespace kilter::onnx
