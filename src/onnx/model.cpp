#include "onnx/model.h"

#include <google/protobuf/io/coded_stream.h>

#include <algorithm>
#include <limits>
#include <set>

#include "base/error.h"
#include "base/files.h"
#include "base/map_value.h"
#include "base/text.h"
#include "onnx/model_data.h"
#include "onnx/tensor_reader.h"

namespace kilter::onnx {
namespace {

/// Names the format of a file that is often given in place of an ONNX file, by its first bytes; empty if it is none of
/// these.
std::string_view other_format(std::span<const std::byte> bytes) {
  const std::string_view head(reinterpret_cast<const char*>(bytes.data()), std::min<size_t>(bytes.size(), 512));
  constexpr std::pair<std::string_view, std::string_view> kHeads[] = {
      {"PK\x03\x04", "a ZIP archive, as torch.save writes it (torch.onnx.export writes ONNX)"},
      {"\x89HDF", "an HDF5 file, as Keras writes it (tf2onnx converts it to ONNX)"},
      {"\x93NUMPY", "an array of NumPy"},
      {"\x1f\x8b", "a compressed file (gunzip it)"},
      {"\x89PNG", "an image"}};
  for (const auto& [start, name] : kHeads) {
    if (head.starts_with(start)) return name;
  }
  if (head.substr(std::min<size_t>(head.size(), 4)).starts_with("TFL3")) return "a model of TensorFlow Lite";
  const auto of_text = [](char c) {
    return static_cast<unsigned char>(c) >= ' ' || c == '\n' || c == '\r' || c == '\t';
  };
  return !head.empty() && std::ranges::all_of(head, of_text) ? "a text" : std::string_view();
}

std::shared_ptr<pb::ModelProto> parse_proto(std::span<const std::byte> bytes, const std::string& file) {
  constexpr size_t kMost = std::numeric_limits<int>::max();
  if (bytes.size() > kMost) {
    fail(ErrorKind::bad_model,
         "{}: {} bytes; an ONNX protobuf has at most {} (2 GiB): keep the weights as external data", file, bytes.size(),
         kMost);
  }
  auto proto = std::make_shared<pb::ModelProto>();
  google::protobuf::io::CodedInputStream input(reinterpret_cast<const uint8_t*>(bytes.data()),
                                               static_cast<int>(bytes.size()));
  if (!proto->ParseFromCodedStream(&input) || !input.ConsumedEntireMessage()) {
    if (const std::string_view other = other_format(bytes); !other.empty()) {
      fail(ErrorKind::bad_model,
           "{}: not a valid ONNX protobuf: this is {}, not an ONNX file; expected a binary ONNX model", file, other);
    }
    fail(ErrorKind::bad_model,
         "{}: not a valid ONNX protobuf: cannot be parsed beyond byte {} of {}; expected a binary ONNX model: the file "
         "is truncated, damaged or in another format",
         file, input.CurrentPosition(), bytes.size());
  }
  if (!proto->has_ir_version() || !proto->has_graph()) {
    fail(ErrorKind::bad_model,
         "{}: not a valid ONNX protobuf: {} bytes without {}; expected a binary ONNX model: the file is empty, "
         "truncated or in another format",
         file, bytes.size(), proto->has_ir_version() ? "a graph" : "an IR version");
  }
  return proto;
}

void check_versions(const ModelData& model) {
  const int64_t ir = model.proto->ir_version();
  if (ir < kOldestIr || ir > kNewestIr) {
    fail(ErrorKind::unsupported, "{}: IR version {}; Kilter reads {} to {}: export the model with {} ONNX release",
         model.file, ir, kOldestIr, kNewestIr, ir < kOldestIr ? "a newer" : "an older");
  }
}

void check_domain(const pb::NodeProto& node, const Opsets& opsets, const ModelData& model) {
  if (model.functions.find(node) != nullptr) return;
  const std::string domain(normal_domain(node.domain()));
  const auto found = opsets.find(domain);
  if (found == opsets.end()) {
    fail(ErrorKind::bad_model, "{}: {}: no opset is imported for the node's domain {}", model.file, node_text(node),
         quote(domain.empty() ? "ai.onnx" : domain));
  }
  if (found->second < 1 || found->second > std::numeric_limits<int32_t>::max()) {
    fail(ErrorKind::bad_model, "{}: opset {} of domain {}; expected 1 to 2^31 - 1", model.file, found->second,
         quote(domain));
  }
}

/// Reads the tensor of an attribute, if it has one. `what` describes the attribute.
template <class What>
void read_attribute_tensor(const pb::AttributeProto& attribute, What what, ModelData& model, TensorReader& reader) {
  if (attribute.type() == kTensorAttr) model.tensors.emplace(&attribute.t(), reader.read(attribute.t(), what()));
  if (attribute.type() == kSparseTensorAttr) {
    const pb::SparseTensorProto& sparse = attribute.sparse_tensor();
    model.tensors.emplace(&sparse.values(), reader.read(sparse, what()));
  }
}

/// Reads the tensors of a node's attributes and checks everything that needs no operator definition.
void read_attributes(const pb::NodeProto& node, bool in_function, ModelData& model, TensorReader& reader) {
  std::set<std::string_view> names;
  for (const auto& attribute : node.attribute()) {
    const auto what = [&] { return fmt::format("{}: attribute {}", node_text(node), quote(attribute.name())); };
    if (!names.insert(attribute.name()).second) {
      fail(ErrorKind::bad_model, "{}: {} is given twice", model.file, what());
    }
    if (!attribute.ref_attr_name().empty()) {
      if (in_function) continue;
      fail(ErrorKind::bad_model, "{}: {} refers to the function attribute {}, but is not inside a function", model.file,
           what(), quote(attribute.ref_attr_name()));
    }
    if (attribute_kind_name(attribute.type()) == "unknown" || attribute.type() == kUndefinedAttr) {
      fail(ErrorKind::bad_model, "{}: {} has kind {}; legal values are 1 (FLOAT) to 14 (TYPE_PROTOS)", model.file,
           what(), attribute.type());
    }
    read_attribute_tensor(attribute, what, model, reader);
  }
}

void read_initializers(const pb::GraphProto& graph, ModelData& model, TensorReader& reader) {
  for (const auto& initializer : graph.initializer()) {
    model.tensors.emplace(&initializer, reader.read(initializer, "initializer " + quote(initializer.name())));
  }
  for (const auto& sparse : graph.sparse_initializer()) {
    const std::string what = "sparse initializer " + quote(sparse.values().name());
    model.tensors.emplace(&sparse.values(), reader.read(sparse, what));
  }
}

void read_nodes(const google::protobuf::RepeatedPtrField<pb::NodeProto>& nodes, const Opsets& opsets, bool in_function,
                ModelData& model, TensorReader& reader) {
  for_each_node(nodes, [&](const pb::NodeProto& node) {
    check_domain(node, opsets, model);
    read_attributes(node, in_function, model, reader);
  });
  for_each_inner_graph(nodes, [&](const pb::GraphProto& graph) { read_initializers(graph, model, reader); });
}

void read_functions(ModelData& model, TensorReader& reader) {
  for (const auto& [key, function] : model.functions.all()) {
    read_nodes(function.proto->node(), function.opsets, true, model, reader);
    for (const auto& attribute : function.proto->attribute_proto()) {
      const auto what = [&] {
        return fmt::format("function {}: attribute {}", quote(function.proto->name()), quote(attribute.name()));
      };
      read_attribute_tensor(attribute, what, model, reader);
    }
  }
}

/// Frees the largest data of a message.
void drop_payload(pb::TensorProto& tensor) {
  delete tensor.release_raw_data();
  google::protobuf::RepeatedField<float>().Swap(tensor.mutable_float_data());
}

/// Drops the payload of the initializers from their messages once they are tensors, so that it is in memory only once.
void drop_initializers(pb::GraphProto& graph) {
  for (auto& initializer : *graph.mutable_initializer()) drop_payload(initializer);
  for (auto& sparse : *graph.mutable_sparse_initializer()) drop_payload(*sparse.mutable_values());
}

std::string_view odd_kind(const pb::TypeProto& type) {
  switch (type.value_case()) {
    case pb::TypeProto::kSequenceType:
      return "a sequence of values that are neither tensors nor maps";
    case pb::TypeProto::kMapType:
      return "a map with keys other than int64 and string, or with values that are not tensors of one element";
    case pb::TypeProto::kOpaqueType:
      return "an opaque value";
    case pb::TypeProto::kSparseTensorType:
      return "a sparse tensor";
    case pb::TypeProto::kOptionalType:
      return "an optional value that is neither tensor, sequence nor map";
    default:
      return "a value of unknown type";
  }
}

/// Returns whether a type is a map from int64 or string to single values.
bool is_map(const pb::TypeProto& type) {
  if (!type.has_map_type()) return false;
  const auto& map = type.map_type();
  const std::optional<DType> key = dtype_of_number(map.key_type());
  if (key != DType::i64 && key != DType::string) return false;
  return map.value_type().has_tensor_type() && map.value_type().tensor_type().shape().dim_size() == 0;
}

/// Returns whether a port can have a type: a tensor or a map, a sequence of these, or an optional value that is one of
/// these.
bool is_port_type(const pb::TypeProto& type) {
  const auto single = [](const pb::TypeProto& t) { return t.has_tensor_type() || is_map(t); };
  if (type.has_sequence_type()) return single(type.sequence_type().elem_type());
  if (type.has_optional_type()) {
    const pb::TypeProto& content = type.optional_type().elem_type();
    return !content.has_optional_type() && is_port_type(content);
  }
  return single(type);
}

/// Reads the type of a port, for which is_port_type() holds.
Port read_port(const std::string& name, const pb::TypeProto& type, const std::string& what, const std::string& file) {
  if (type.has_sequence_type() || type.has_optional_type()) {
    const bool sequence = type.has_sequence_type();
    Port port =
        read_port(name, sequence ? type.sequence_type().elem_type() : type.optional_type().elem_type(), what, file);
    port.of_sequence = port.kind == DeclaredType::Kind::sequence;
    port.kind = sequence ? DeclaredType::Kind::sequence : DeclaredType::Kind::optional;
    return port;
  }
  if (type.has_map_type()) {
    Port port = read_port(name, type.map_type().value_type(), what, file);
    port.kind = DeclaredType::Kind::map;
    port.key = dtype_of_number(type.map_type().key_type());
    port.dims.emplace();
    return port;
  }
  Port port;
  port.name = name;
  const auto& tensor = type.tensor_type();
  port.type = require_dtype(tensor.elem_type(), file, what);
  if (!tensor.has_shape()) return port;
  if (tensor.shape().dim_size() > kMostDims) {
    fail(ErrorKind::unsupported, "{}: {} has {} dimensions; Kilter handles up to {}", file, what,
         tensor.shape().dim_size(), kMostDims);
  }
  port.dims.emplace();
  for (const auto& dim : tensor.shape().dim()) {
    Dim read;
    if (dim.dim_value() > 0) read.size = dim.dim_value();
    read.symbol = dim.dim_param();
    port.dims->push_back(std::move(read));
  }
  return port;
}

void add_odd_port(ModelData& model, const std::string& side, std::string_view kind, const std::string& name) {
  const std::string reason =
      fmt::format("{}; only tensors, maps, sequences of these and optional values can be inputs and outputs", kind);
  for (Missing& known : model.odd_ports) {
    if (known.op != side || known.reason != reason) continue;
    known.nodes.push_back(name);
    return;
  }
  model.odd_ports.push_back({side, reason, {name}});
}

void read_ports(ModelData& model) {
  std::set<std::string_view> defaults;
  for (const auto& initializer : model.graph().initializer()) defaults.insert(initializer.name());
  for (const auto& sparse : model.graph().sparse_initializer()) defaults.insert(sparse.values().name());
  const auto add = [&](const pb::ValueInfoProto& info, std::string_view side, std::vector<Port>& ports) {
    const std::string what = fmt::format("{} {}", side, quote(info.name()));
    if (is_port_type(info.type())) {
      ports.push_back(read_port(info.name(), info.type(), what, model.file));
    } else {
      add_odd_port(model, fmt::format("{} of the graph", side), odd_kind(info.type()), info.name());
    }
  };
  for (const auto& info : model.graph().input()) {
    add(info, "input", defaults.contains(info.name()) ? model.default_inputs : model.inputs);
  }
  std::set<std::string_view> seen;
  for (const auto& info : model.graph().output()) {
    if (!seen.insert(info.name()).second) {
      fail(ErrorKind::bad_model, "{}: the name {} is used by two outputs of the graph; every name must be unique",
           model.file, quote(info.name()));
    }
    add(info, "output", model.outputs);
  }
}

}  // namespace

int32_t opset_of(const Opsets& opsets, const pb::NodeProto& node) {
  return static_cast<int32_t>(opsets.at(std::string(normal_domain(node.domain()))));
}

std::string text(const Port& port) {
  if (!port.is_tensor()) {
    if (port.kind == DeclaredType::Kind::map) return fmt::format("map from {} to {}", name(*port.key), name(port.type));
    const bool sequence = port.kind == DeclaredType::Kind::sequence;
    if (sequence && port.key) return fmt::format("sequence of maps from {} to {}", name(*port.key), name(port.type));
    Port element = port;
    element.kind = port.of_sequence ? DeclaredType::Kind::sequence
                   : port.key       ? DeclaredType::Kind::map
                                    : DeclaredType::Kind::tensor;
    element.of_sequence = false;
    return (sequence ? "sequence of " : "optional ") + text(element);
  }
  std::string dims;
  if (!port.dims) return fmt::format("{}[...]", name(port.type));
  for (const Dim& dim : *port.dims) {
    if (!dims.empty()) dims += ",";
    if (dim.size) {
      dims += std::to_string(*dim.size);
    } else {
      dims += dim.symbol.empty() ? "?" : printable(dim.symbol);
    }
  }
  return fmt::format("{}[{}]", name(port.type), dims);
}

bool fits(const Port& port, const Shape& shape) {
  if (!port.dims || port.dims->empty()) return true;
  if (port.dims->size() != shape.size()) return false;
  for (size_t i = 0; i < shape.size(); ++i) {
    const std::optional<int64_t>& size = (*port.dims)[i].size;
    if (size && *size != shape[i]) return false;
  }
  return true;
}

bool fits(const Port& port, const AnyValue& value) {
  if (value.absent()) return port.kind == DeclaredType::Kind::optional;
  const auto element_fits = [&](const AnyValue& element) {
    if (!port.key) return element.is_tensor() && element.tensor().dtype() == port.type;
    return is_map(element) && map_keys(element).dtype() == *port.key && map_values(element).dtype() == port.type;
  };
  if (!port.is_sequence()) return element_fits(value);
  return is_list(value) && std::ranges::all_of(value.elements(), element_fits);
}

Model::Model() : impl_(std::make_unique<Impl>()) {}
Model::~Model() = default;

std::shared_ptr<const Model> Model::load(const std::filesystem::path& file) {
  const std::filesystem::path target = link_target(file);
  const auto mapped = MappedFile::open(target);
  return parse_in(mapped->bytes(), file.string(), data_folders(file, target));
}

std::shared_ptr<const Model> Model::parse(std::span<const std::byte> bytes, const std::string& name,
                                          const std::filesystem::path& folder) {
  return parse_in(bytes, name, folder.empty() ? DataFolders{} : DataFolders{folder});
}

std::shared_ptr<const Model> Model::parse_in(std::span<const std::byte> bytes, const std::string& name,
                                             const DataFolders& folders) {
  std::shared_ptr<Model> model(new Model);
  Impl& data = *model->impl_;
  data.file = name;
  const auto proto = parse_proto(bytes, name);
  data.proto = proto;
  check_versions(data);
  data.opsets = read_opsets(proto->opset_import(), name, "");
  data.functions = Functions(*proto, name);
  check_graph(proto->graph(), name, data.orders);
  for (const auto& [key, function] : data.functions.all()) check_function(*function.proto, name, data.orders);
  TensorReader reader(name, folders);
  read_nodes(proto->graph().node(), data.opsets, false, data, reader);
  read_functions(data, reader);
  read_initializers(proto->graph(), data, reader);
  drop_initializers(*proto->mutable_graph());
  read_ports(data);
  return model;
}

std::shared_ptr<const OpenGraph> Model::open_graph(const std::set<std::string>& given) const {
  return impl_->open_graph(given);
}
const std::string& Model::name() const { return impl_->file; }
int64_t Model::ir_version() const { return impl_->proto->ir_version(); }
const std::map<std::string, int64_t>& Model::opsets() const { return impl_->opsets; }
const std::vector<Port>& Model::inputs() const { return impl_->inputs; }
const std::vector<Port>& Model::default_inputs() const { return impl_->default_inputs; }
const std::vector<Port>& Model::outputs() const { return impl_->outputs; }

}  // namespace kilter::onnx
