#include "onnx/save.h"

#include <array>
#include <deque>
#include <limits>
#include <set>
#include <unordered_map>

#include "base/error.h"
#include "base/files.h"
#include "onnx/forms.h"
#include "onnx/model.h"
#include "onnx/schema.h"
#include "onnx/tensor_reader.h"
#include "ops/support/builder.h"

namespace kilter::onnx {
namespace {

constexpr int64_t kAlignment = 64;

void set_shape(pb::TypeProto::Tensor& type, const TensorType& from) {
  type.set_elem_type(number_of_dtype(from.dtype));
  auto* shape = type.mutable_shape();
  for (const int64_t d : from.shape) shape->add_dim()->set_dim_value(d);
}

void set_inside(pb::TensorProto& proto, const Tensor& tensor) {
  if (tensor.dtype() == DType::string) {
    for (const auto& text : tensor.strings()) proto.add_string_data(text);
  } else {
    const Tensor bytes = file_form(tensor);
    proto.set_raw_data(bytes.raw(), static_cast<size_t>(bytes.bytes()));
  }
}

void set_header(pb::TensorProto& proto, const Tensor& tensor) {
  proto.set_data_type(number_of_dtype(tensor.dtype()));
  for (const int64_t d : tensor.shape()) proto.add_dims(d);
}

/// Writes one attribute. Has one overload for each alternative of Attr.
struct AttrWriter {
  pb::AttributeProto& proto;
  const Node& node;

  void operator()(int64_t value) const {
    proto.set_type(kIntAttr);
    proto.set_i(value);
  }
  void operator()(float value) const {
    proto.set_type(kFloatAttr);
    proto.set_f(value);
  }
  void operator()(const std::string& value) const {
    proto.set_type(kStringAttr);
    proto.set_s(value);
  }
  void operator()(const std::vector<int64_t>& values) const {
    proto.set_type(kIntsAttr);
    for (const int64_t value : values) proto.add_ints(value);
  }
  void operator()(const std::vector<float>& values) const {
    proto.set_type(kFloatsAttr);
    for (const float value : values) proto.add_floats(value);
  }
  void operator()(const std::vector<std::string>& values) const {
    proto.set_type(kStringsAttr);
    for (const auto& value : values) proto.add_strings(value);
  }
  void operator()(const Tensor& value) const {
    proto.set_type(kTensorAttr);
    set_header(*proto.mutable_t(), value);
    set_inside(*proto.mutable_t(), value);
  }
};

/// The names in the written file. In ONNX, a graph output is itself a value, so the value that it returns takes its
/// name.
class Names {
 public:
  explicit Names(const Graph& graph) : graph_(graph) {
    for (const ValueId id : graph.inputs()) claim(id, graph.value(id).name);
    for (const auto& output : graph.outputs()) {
      const bool produced = graph.value(output.value).producer != kNone;
      const bool own_name = graph.value(output.value).name == output.name;
      if ((produced || own_name) && !names_.contains(output.value)) {
        claim(output.value, output.name);
      } else if (names_.contains(output.value) && names_.at(output.value) == output.name) {
        continue;
      } else {
        if (!taken_.insert(output.name).second) fail_taken(output.name);
        copies_.push_back(output);
      }
    }
  }

  const std::string& of(ValueId id) {
    static const std::string kLeftOut;
    if (id == kNone) return kLeftOut;
    const auto known = names_.find(id);
    if (known != names_.end()) return known->second;
    std::string name = graph_.value(id).name;
    for (int i = 2; !taken_.insert(name).second; ++i) name = fmt::format("{}_{}", graph_.value(id).name, i);
    return names_.emplace(id, name).first->second;
  }

  /// Returns outputs that need an Identity because their value has another name.
  const std::vector<Graph::Output>& copies() const { return copies_; }

 private:
  void claim(ValueId id, const std::string& name) {
    if (!taken_.insert(name).second) fail_taken(name);
    names_.emplace(id, name);
  }
  [[noreturn]] static void fail_taken(const std::string& name) {
    fail(ErrorKind::bad_model,
         "the name {} is used twice by inputs and outputs of the graph; every name must be unique", quote(name));
  }

  const Graph& graph_;
  std::unordered_map<ValueId, std::string> names_;
  std::set<std::string> taken_;
  std::vector<Graph::Output> copies_;
};

class Writer {
 public:
  Writer(const Graph& graph, std::filesystem::path file, int64_t opset, int64_t inside_bytes)
      : graph_(graph), file_(std::move(file)), opset_(opset), inside_bytes_(inside_bytes), names_(graph) {}

  void write() {
    model_.set_ir_version(opset_ <= 18 ? 8 : 10);
    model_.set_producer_name("kilter");
    auto& graph = *model_.mutable_graph();
    graph.set_name(graph_.name.empty() ? "graph" : graph_.name);
    for (const ValueId id : graph_.inputs()) add_port(*graph.add_input(), names_.of(id), id);
    add_constants();
    opsets_[""] = opset_;
    for (const NodeId id : graph_.order()) add_node(graph_.node(id));
    for (const auto& output : names_.copies()) add_copy(output);
    for (const auto& output : graph_.outputs()) add_port(*graph.add_output(), output.name, output.value);
    for (const auto& [domain, version] : opsets_) {
      auto* import = model_.add_opset_import();
      import->set_domain(domain);
      import->set_version(version);
    }
    write_files();
  }

 private:
  void add_port(pb::ValueInfoProto& port, const std::string& name, ValueId id) {
    port.set_name(name);
    set_shape(*port.mutable_type()->mutable_tensor_type(), graph_.type(id));
  }

  void add_constants() {
    std::vector<ValueId> used;
    std::vector<bool> seen(graph_.value_count());
    int64_t total = 0;
    const auto use = [&](ValueId id) {
      if (id == kNone || !graph_.value(id).constant || seen[static_cast<size_t>(id)]) return;
      seen[static_cast<size_t>(id)] = true;
      used.push_back(id);
      total += graph_.value(id).constant->bytes();
    };
    for (const NodeId id : graph_.order()) {
      for (const ValueId input : graph_.node(id).inputs) use(input);
    }
    for (const auto& output : graph_.outputs()) use(output.value);
    for (const ValueId id : used) add_constant(id, total > inside_bytes_);
  }

  void add_constant(ValueId id, bool outside) {
    const Tensor& tensor = *graph_.value(id).constant;
    auto& proto = *model_.mutable_graph()->add_initializer();
    proto.set_name(names_.of(id));
    set_header(proto, tensor);
    if (!outside || tensor.bytes() < kSmallBytes) {
      set_inside(proto, tensor);
      return;
    }
    static constexpr std::array<std::byte, kAlignment> kZeros{};
    const int64_t padding = (kAlignment - weights_bytes_ % kAlignment) % kAlignment;
    weights_.push_back(std::span(kZeros).first(static_cast<size_t>(padding)));
    const Tensor& bytes = packed_.emplace_back(file_form(tensor));
    weights_.push_back({bytes.raw(), static_cast<size_t>(bytes.bytes())});
    weights_bytes_ += padding;
    proto.set_data_location(1);
    const auto set = [&](const char* key, const std::string& value) {
      auto* entry = proto.add_external_data();
      entry->set_key(key);
      entry->set_value(value);
    };
    set("location", weights_file().filename().string());
    set("offset", std::to_string(weights_bytes_));
    set("length", std::to_string(bytes.bytes()));
    weights_bytes_ += bytes.bytes();
  }

  void check_node(const Node& node) {
    if (node.op->domain == "kilter") {
      fail(ErrorKind::unsupported,
           "{}: {} {} is one of Kilter's own operators; ONNX graphs are written before the passes", file_.string(),
           node.op->name, quote(node.name));
    }
    const auto entry = opsets_.emplace(node.op->domain, node.opset).first;
    const bool fits = node.op->domain.empty() ? same_form(node, opset_) : entry->second == node.opset;
    if (!fits) {
      fail(ErrorKind::unsupported,
           "{}: {} {} follows opset {}, but the file is written for opset {}, in which its form differs; build the "
           "graph for that opset or write the file for opset {}",
           file_.string(), node.op->name, quote(node.name), node.opset, entry->second, node.opset);
    }
    for (const ValueId output : node.outputs) {
      if (output == kNone || graph_.type(output).layout.plain()) continue;
      fail(ErrorKind::unsupported, "{}: {} {} produces {}; ONNX graphs are written before layouts are chosen",
           file_.string(), node.op->name, quote(node.name), text(graph_.type(output)));
    }
  }

  void add_node(const Node& node) {
    check_node(node);
    auto& proto = *model_.mutable_graph()->add_node();
    proto.set_name(node.name);
    proto.set_op_type(std::string(node.op->name));
    if (!node.op->domain.empty()) proto.set_domain(std::string(node.op->domain));
    for (const ValueId input : node.inputs) proto.add_input(names_.of(input));
    for (const ValueId output : node.outputs) proto.add_output(names_.of(output));
    for (const auto& [key, attr] : node.attrs) {
      auto& attribute = *proto.add_attribute();
      attribute.set_name(key);
      std::visit(AttrWriter{attribute, node}, attr);
    }
  }

  void add_copy(const Graph::Output& output) {
    auto& proto = *model_.mutable_graph()->add_node();
    proto.set_name("output " + output.name);
    proto.set_op_type("Identity");
    proto.add_input(names_.of(output.value));
    proto.add_output(output.name);
  }

  std::filesystem::path weights_file() const {
    std::filesystem::path path = file_;
    path += ".weights";
    return path;
  }

  void write_files() {
    if (model_.ByteSizeLong() > static_cast<size_t>(std::numeric_limits<int>::max())) {
      fail(ErrorKind::unsupported, "{}: {} bytes without the weights; an ONNX protobuf has at most 2 GiB",
           file_.string(), model_.ByteSizeLong());
    }
    const std::string bytes = model_.SerializeAsString();
    std::error_code ignored;
    const bool fresh_weights = !weights_.empty() && !std::filesystem::exists(weights_file(), ignored);
    if (!weights_.empty()) write_file_atomically(weights_file(), weights_);
    try {
      write_file_atomically(file_, bytes);
    } catch (...) {
      if (fresh_weights) std::filesystem::remove(weights_file(), ignored);
      throw;
    }
  }

  const Graph& graph_;
  std::filesystem::path file_;
  int64_t opset_;
  int64_t inside_bytes_;
  Names names_;
  pb::ModelProto model_;
  std::map<std::string, int64_t, std::less<>> opsets_;
  std::deque<Tensor> packed_;  ///< tensors that weights_ views
  std::vector<std::span<const std::byte>> weights_;
  int64_t weights_bytes_ = 0;
};

}  // namespace

void save_with_limit(const Graph& graph, const std::filesystem::path& file, int64_t opset, int64_t inside_bytes) {
  if (opset < kOldestOpset || opset > kNewestOpset) {
    fail(ErrorKind::usage, "{}: opset {}; Kilter writes {} to {}", file.string(), opset, kOldestOpset, kNewestOpset);
  }
  Writer(graph, file, opset, inside_bytes).write();
}

void save(const Graph& graph, const std::filesystem::path& file, int64_t opset) {
  save_with_limit(graph, file, opset, kMostInsideBytes);
}

}  // namespace kilter::onnx
