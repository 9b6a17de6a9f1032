#include "quantize/document.h"

#include <google/protobuf/io/coded_stream.h>

#include <algorithm>
#include <array>
#include <limits>
#include <span>

#include "base/error.h"
#include "base/files.h"
#include "onnx/model.h"
#include "onnx/structure.h"
#include "onnx/tensor_reader.h"

namespace kilter::quantize {
namespace {

constexpr int32_t kInt4Number = 22;  ///< TensorProto.DataType.INT4
constexpr int64_t kSmallBytes = 256;
constexpr int64_t kAlignment = 64;

void for_each_inner_use(pb::GraphProto& graph, std::set<std::string> own,
                        const std::function<void(std::string&)>& visit) {
  for (const auto& initializer : graph.initializer()) own.insert(initializer.name());
  for (const auto& sparse : graph.sparse_initializer()) own.insert(sparse.values().name());
  for (const auto& input : graph.input()) own.insert(input.name());
  for (const auto& node : graph.node()) own.insert(node.output().begin(), node.output().end());
  for (auto& node : *graph.mutable_node()) {
    for (std::string& input : *node.mutable_input()) {
      if (!input.empty() && !own.contains(input)) visit(input);
    }
    for (auto& attribute : *node.mutable_attribute()) {
      if (attribute.has_g()) for_each_inner_use(*attribute.mutable_g(), own, visit);
      for (auto& inner : *attribute.mutable_graphs()) for_each_inner_use(inner, own, visit);
    }
  }
  for (auto& output : *graph.mutable_output()) {
    if (!own.contains(output.name())) visit(*output.mutable_name());
  }
}

void drop_payload(pb::TensorProto& proto) {
  proto.clear_raw_data();
  proto.clear_float_data();
  proto.clear_int32_data();
  proto.clear_int64_data();
  proto.clear_double_data();
  proto.clear_uint64_data();
  proto.clear_external_data();
  proto.clear_data_location();
}

pb::AttributeProto& attribute_of(pb::NodeProto& node, const std::string& name, int32_t kind) {
  for (auto& attribute : *node.mutable_attribute()) {
    if (attribute.name() == name) return attribute;
  }
  auto& made = *node.add_attribute();
  made.set_name(name);
  made.set_type(kind);
  return made;
}

void add_names(const Nodes& nodes, std::set<std::string>& names);

void add_names(const pb::GraphProto& graph, std::set<std::string>& names) {
  for (const auto& initializer : graph.initializer()) names.insert(initializer.name());
  for (const auto& sparse : graph.sparse_initializer()) names.insert(sparse.values().name());
  for (const auto& input : graph.input()) names.insert(input.name());
  for (const auto& output : graph.output()) names.insert(output.name());
  add_names(graph.node(), names);
}

void add_names(const Nodes& nodes, std::set<std::string>& names) {
  for (const auto& node : nodes) {
    names.insert(node.name());
    names.insert(node.input().begin(), node.input().end());
    names.insert(node.output().begin(), node.output().end());
    for (const auto& attribute : node.attribute()) {
      if (attribute.has_g()) add_names(attribute.g(), names);
      for (const auto& inner : attribute.graphs()) add_names(inner, names);
    }
  }
}

/// Collects the weights that a file keeps outside, each at a multiple of kAlignment bytes.
class OutsideWeights {
 public:
  explicit OutsideWeights(std::filesystem::path file) : file_(std::move(file)) { file_ += ".weights"; }

  void add(pb::TensorProto& proto, const Tensor& tensor) {
    const std::span<const std::byte> bytes(tensor.raw(), static_cast<size_t>(tensor.bytes()));
    static constexpr std::array<std::byte, kAlignment> kZeros{};
    const int64_t padding = (kAlignment - size_ % kAlignment) % kAlignment;
    parts_.push_back(std::span(kZeros).first(static_cast<size_t>(padding)));
    parts_.push_back(bytes);
    kept_.push_back(tensor);
    size_ += padding;
    proto.set_data_location(1);
    const auto set = [&](const char* key, const std::string& value) {
      auto* entry = proto.add_external_data();
      entry->set_key(key);
      entry->set_value(value);
    };
    set("location", file_.filename().string());
    set("offset", std::to_string(size_));
    set("length", std::to_string(bytes.size()));
    size_ += static_cast<int64_t>(bytes.size());
  }
  void write() const {
    if (!parts_.empty()) write_file_atomically(file_, parts_);
  }

 private:
  std::filesystem::path file_;
  std::vector<std::span<const std::byte>> parts_;
  std::vector<Tensor> kept_;  ///< tensors that parts_ views
  int64_t size_ = 0;
};

}  // namespace

const std::string& node_name(const pb::NodeProto& node) {
  static const std::string kNone;
  if (!node.name().empty()) return node.name();
  return node.output_size() > 0 ? node.output(0) : kNone;
}

std::string op_name(const pb::NodeProto& node) {
  const std::string_view domain = onnx::normal_domain(node.domain());
  return domain.empty() ? node.op_type() : fmt::format("{}:{}", domain, node.op_type());
}

const pb::AttributeProto* find_attribute(const pb::NodeProto& node, std::string_view name) {
  const auto at = std::find_if(node.attribute().begin(), node.attribute().end(),
                               [&](const pb::AttributeProto& a) { return a.name() == name; });
  return at == node.attribute().end() ? nullptr : &*at;
}

int64_t int_attribute(const pb::NodeProto& node, std::string_view name, int64_t fallback) {
  const pb::AttributeProto* found = find_attribute(node, name);
  return found != nullptr ? found->i() : fallback;
}

float float_attribute(const pb::NodeProto& node, std::string_view name, float fallback) {
  const pb::AttributeProto* found = find_attribute(node, name);
  return found != nullptr ? found->f() : fallback;
}

void set_attribute(pb::NodeProto& node, const std::string& name, int64_t value) {
  attribute_of(node, name, onnx::kIntAttr).set_i(value);
}

void set_attribute(pb::NodeProto& node, const std::string& name, float value) {
  attribute_of(node, name, onnx::kFloatAttr).set_f(value);
}

pb::NodeProto make_node(std::string_view op, const std::string& name, const std::vector<std::string>& inputs,
                        const std::vector<std::string>& outputs) {
  pb::NodeProto node;
  const size_t colon = op.find(':');
  if (colon != std::string_view::npos) node.set_domain(std::string(op.substr(0, colon)));
  node.set_op_type(std::string(colon == std::string_view::npos ? op : op.substr(colon + 1)));
  node.set_name(name);
  for (const std::string& input : inputs) node.add_input(input);
  for (const std::string& output : outputs) node.add_output(output);
  return node;
}

void for_each_inner_use(pb::NodeProto& node, const std::function<void(std::string&)>& visit) {
  for (auto& attribute : *node.mutable_attribute()) {
    if (attribute.has_g()) for_each_inner_use(*attribute.mutable_g(), {}, visit);
    for (auto& inner : *attribute.mutable_graphs()) for_each_inner_use(inner, {}, visit);
  }
}

Document Document::load(const std::filesystem::path& file, const std::string& name) {
  onnx::Model::load(file);  // reports whatever is wrong with the file
  Document made;
  made.file_ = name.empty() ? file.string() : name;
  const auto mapped = MappedFile::open(link_target(file));
  google::protobuf::io::CodedInputStream input(reinterpret_cast<const uint8_t*>(mapped->bytes().data()),
                                               static_cast<int>(mapped->bytes().size()));
  require(made.proto_.ParseFromCodedStream(&input), "{} has changed while it was read", made.file_);
  made.read_initializers(file);
  made.sort_nodes();
  for (const auto& output : made.graph().output()) made.outputs_.insert(output.name());
  made.note_names();
  made.note_constants();
  return made;
}

void Document::read_initializers(const std::filesystem::path& file) {
  onnx::TensorReader reader(file_, onnx::data_folders(file, link_target(file)));
  for (auto& proto : *proto_.mutable_graph()->mutable_initializer()) {
    Tensor tensor = reader.read(proto, "initializer " + onnx::quote(proto.name()));
    if (tensor.dtype() != DType::string) drop_payload(proto);
    tensors_.insert_or_assign(proto.name(), std::move(tensor));
  }
  for (const auto& sparse : graph().sparse_initializer()) {  // they are written as dense ones
    const std::string& name = sparse.values().name();
    Tensor tensor = reader.read(sparse, "sparse initializer " + onnx::quote(name));
    auto& proto = *proto_.mutable_graph()->add_initializer();
    proto.set_name(name);
    proto.set_data_type(sparse.values().data_type());
    for (const int64_t d : tensor.shape()) proto.add_dims(d);
    if (tensor.dtype() == DType::string) {
      for (const std::string& text : tensor.strings()) proto.add_string_data(text);
    }
    tensors_.insert_or_assign(name, std::move(tensor));
  }
  proto_.mutable_graph()->clear_sparse_initializer();
}

void Document::sort_nodes() {
  onnx::Orders orders;
  onnx::check_graph(graph(), file_, orders);
  Nodes sorted;
  for (const int i : orders.at(&graph())) *sorted.Add() = std::move(*nodes().Mutable(i));
  nodes().Swap(&sorted);
}

void Document::note_names() { add_names(graph(), names_); }

void Document::note_constants() {
  onnx::TensorReader reader(file_, {});
  for (const auto& node : nodes()) {
    if (!onnx::normal_domain(node.domain()).empty() || node.output_size() != 1) continue;
    const pb::AttributeProto* value = find_attribute(node, "value");
    if (node.op_type() == "Constant" && value != nullptr && value->has_t()) {
      constants_.insert_or_assign(node.output(0), reader.read(value->t(), "Constant " + onnx::quote(node.output(0))));
    } else if (const Tensor* source = view_of(node)) {
      constants_.insert_or_assign(node.output(0), *source);
    }
  }
}

const Tensor* Document::view_of(const pb::NodeProto& node) {
  if (node.op_type() == "Identity" && node.input_size() == 1) return constant(node.input(0));
  if (node.op_type() != "Reshape" || node.input_size() != 2) return nullptr;
  const Tensor* source = constant(node.input(0));
  const Tensor* target = constant(node.input(1));
  if (source == nullptr || target == nullptr || target->dtype() != DType::i64) return nullptr;
  Shape shape = target->ints();
  int64_t known = 1, open = -1;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 0 && i < source->shape().size()) shape[i] = source->shape()[i];
    if (shape[i] > 0) known *= shape[i];
    if (shape[i] < 0) open = static_cast<int64_t>(i);
  }
  if (open >= 0 && known > 0) shape[static_cast<size_t>(open)] = source->elems() / known;
  if (std::ranges::any_of(shape, [](int64_t d) { return d <= 0; }) || kilter::elems(shape) != source->elems()) {
    return nullptr;
  }
  constants_.insert_or_assign(node.output(0), source->reshaped(shape));
  return &constants_.at(node.output(0));
}

int64_t Document::opset() const {
  for (const auto& import : proto_.opset_import()) {
    if (onnx::normal_domain(import.domain()).empty()) return import.version();
  }
  return onnx::kOldestOpset;
}

void Document::set_opset(int64_t version) {
  for (auto& import : *proto_.mutable_opset_import()) {
    if (onnx::normal_domain(import.domain()).empty()) import.set_version(version);
  }
  // The first IR version with which ONNX released this opset (onnx/helper.py's VERSION_TABLE).
  const int64_t ir = version <= 9    ? 4
                     : version <= 10 ? 5
                     : version <= 11 ? 6
                     : version <= 14 ? 7
                     : version <= 18 ? 8
                                     : 10;
  proto_.set_ir_version(std::max<int64_t>(proto_.ir_version(), ir));
}

void Document::import(const std::string& domain) {
  for (const auto& known : proto_.opset_import()) {
    if (known.domain() == domain) return;
  }
  auto& made = *proto_.add_opset_import();
  made.set_domain(domain);
  made.set_version(1);
}

const Tensor* Document::constant(const std::string& name) const {
  const auto inside = tensors_.find(name);
  if (inside != tensors_.end()) return &inside->second;
  const auto made = constants_.find(name);
  return made != constants_.end() ? &made->second : nullptr;
}

bool Document::makes_constant(const pb::NodeProto& node) const {
  return node.output_size() == 1 && constants_.contains(node.output(0));
}

bool Document::is_input(const std::string& name) const {
  return std::any_of(graph().input().begin(), graph().input().end(),
                     [&](const pb::ValueInfoProto& input) { return input.name() == name; });
}

void Document::add_input(const std::string& value) {
  auto& made = *proto_.mutable_graph()->add_input();
  made.set_name(value);
  made.mutable_type()->mutable_tensor_type()->set_elem_type(onnx::number_of_dtype(DType::f32));
}

void Document::add_output(const std::string& value) {
  if (!outputs_.insert(value).second) return;
  auto& made = *proto_.mutable_graph()->add_output();
  made.set_name(value);
  made.mutable_type()->mutable_tensor_type()->set_elem_type(onnx::number_of_dtype(DType::f32));
}

void Document::clear_ports() {
  proto_.mutable_graph()->clear_input();
  proto_.mutable_graph()->clear_output();
  proto_.mutable_graph()->clear_value_info();
  outputs_.clear();
}

std::string Document::fresh(const std::string& hint) {
  std::string name = hint;
  for (int i = 2; !names_.insert(name).second; ++i) name = fmt::format("{}_{}", hint, i);
  return name;
}

pb::TensorProto& Document::add_header(const std::string& hint, int32_t type, const Shape& shape) {
  auto& proto = *proto_.mutable_graph()->add_initializer();
  proto.set_name(fresh(hint));
  proto.set_data_type(type);
  for (const int64_t d : shape) proto.add_dims(d);
  // Before, an initializer had to be an input as well.
  proto_.set_ir_version(std::max<int64_t>(proto_.ir_version(), 4));
  return proto;
}

std::string Document::add(const std::string& hint, Tensor tensor) {
  std::string name = add_header(hint, onnx::number_of_dtype(tensor.dtype()), tensor.shape()).name();
  tensors_.emplace(name, std::move(tensor));
  return name;
}

std::string Document::add(const std::string& hint, const Int4& tensor) {
  pb::TensorProto& proto = add_header(hint, kInt4Number, tensor.shape);
  proto.set_raw_data(tensor.bytes.data(), tensor.bytes.size());
  return proto.name();
}

void Document::remove_unused() {
  std::set<std::string> read = outputs_;
  for (int i = nodes().size() - 1; i >= 0; --i) {  // readers stand after the nodes that they read
    auto& node = *nodes().Mutable(i);
    if (makes_constant(node) && !read.contains(node.output(0))) {
      nodes().DeleteSubrange(i, 1);
      continue;
    }
    read.insert(node.input().begin(), node.input().end());
    for_each_inner_use(node, [&](std::string& name) { read.insert(name); });
  }
  const auto erase_if = [](auto& list, auto&& unwanted) {
    list.erase(std::remove_if(list.begin(), list.end(), unwanted), list.end());
  };
  auto& graph = *proto_.mutable_graph();
  const auto unread = [&](const auto& item) { return !read.contains(item.name()); };
  erase_if(*graph.mutable_input(), [&](const auto& i) { return tensors_.contains(i.name()) && unread(i); });
  erase_if(*graph.mutable_initializer(), unread);
  std::erase_if(tensors_, [&](const auto& entry) { return !read.contains(entry.first); });
  std::set<std::string> made;
  for (const auto& node : nodes()) made.insert(node.output().begin(), node.output().end());
  erase_if(*graph.mutable_value_info(), [&](const auto& info) { return !made.contains(info.name()); });
}

void Document::save(const std::filesystem::path& file, int64_t inside_bytes) const {
  pb::ModelProto written = proto_;
  OutsideWeights outside(file);
  const bool apart = initializer_bytes() > inside_bytes;
  for (auto& proto : *written.mutable_graph()->mutable_initializer()) {
    const auto known = tensors_.find(proto.name());
    if (known == tensors_.end() || known->second.dtype() == DType::string) continue;
    const Tensor tensor = onnx::file_form(known->second);
    if (apart && tensor.bytes() >= kSmallBytes) {
      outside.add(proto, tensor);
    } else {
      proto.set_raw_data(tensor.raw(), static_cast<size_t>(tensor.bytes()));
    }
  }
  if (written.ByteSizeLong() > static_cast<size_t>(std::numeric_limits<int>::max())) {
    fail(ErrorKind::unsupported, "{}: {} bytes without the weights; an ONNX protobuf has at most 2 GiB", file.string(),
         written.ByteSizeLong());
  }
  outside.write();
  write_file_atomically(file, written.SerializeAsString());
}

int64_t Document::weight_bytes() const {
  int64_t sum = initializer_bytes();
  for (const auto& node : nodes()) {
    const auto known = node.op_type() == "Constant" ? constants_.find(node.output(0)) : constants_.end();
    if (known != constants_.end()) sum += known->second.bytes();
  }
  return sum;
}

int64_t Document::initializer_bytes() const {
  int64_t sum = 0;
  for (const auto& [name, tensor] : tensors_) sum += tensor.bytes();
  for (const auto& proto : graph().initializer()) sum += static_cast<int64_t>(proto.raw_data().size());
  return sum;
}

Uses::Uses(Document& document) {
  for (const auto& output : document.graph().output()) elsewhere_.insert(output.name());
  for (int i = 0; i < document.nodes().size(); ++i) {
    auto& node = *document.nodes().Mutable(i);
    for (const std::string& input : node.input()) {
      auto& list = readers_[input];
      if (list.empty() || list.back() != i) list.push_back(i);
    }
    for_each_inner_use(node, [&](std::string& name) { elsewhere_.insert(name); });
  }
}

const std::vector<int>& Uses::readers(const std::string& value) const {
  static const std::vector<int> kNobody;
  const auto found = readers_.find(value);
  return found == readers_.end() ? kNobody : found->second;
}

int Uses::only_reader(const std::string& value) const {
  const std::vector<int>& all = readers(value);
  return all.size() == 1 && !read_elsewhere(value) ? all.front() : -1;
}

}  // namespace kilter::quantize
