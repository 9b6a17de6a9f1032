// An ONNX file for editing: the protobuf, with everything in it that Kilter does not understand, and its constants as
// tensors.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/tensor.h"
#include "onnx/schema.h"

namespace kilter::quantize {

namespace pb = onnx::pb;
using Nodes = google::protobuf::RepeatedPtrField<pb::NodeProto>;

/// Returns the node's name, or that of its first output if it has none: what reports and options call it.
const std::string& node_name(const pb::NodeProto& node);
/// Returns "Conv", or "com.microsoft:QGemm" for an operator of another domain.
std::string op_name(const pb::NodeProto& node);
const pb::AttributeProto* find_attribute(const pb::NodeProto& node, std::string_view name);
int64_t int_attribute(const pb::NodeProto& node, std::string_view name, int64_t fallback);
float float_attribute(const pb::NodeProto& node, std::string_view name, float fallback);
void set_attribute(pb::NodeProto& node, const std::string& name, int64_t value);
void set_attribute(pb::NodeProto& node, const std::string& name, float value);
/// Returns a node of `op`, which is "Conv", or "com.microsoft:QGemm" for an operator of another domain.
pb::NodeProto make_node(std::string_view op, const std::string& name, const std::vector<std::string>& inputs,
                        const std::vector<std::string>& outputs);

/// Calls `visit` with every name of an outer value that graphs in the node's attributes read.
void for_each_inner_use(pb::NodeProto& node, const std::function<void(std::string&)>& visit);

/// Packed 4-bit integers, for which Kilter has no element type.
struct Int4 {
  Shape shape;
  std::vector<uint8_t> bytes;  ///< two elements each, the first in the lower half
};

class Document {
 public:
  /// Reads a file that onnx::Model accepts. Nodes are then sorted. Throws as onnx::Model::load does. `name` replaces
  /// the path in later errors.
  static Document load(const std::filesystem::path& file, const std::string& name = {});

  const std::string& file() const { return file_; }
  pb::ModelProto& proto() { return proto_; }
  const pb::GraphProto& graph() const { return proto_.graph(); }
  Nodes& nodes() { return *proto_.mutable_graph()->mutable_node(); }
  const Nodes& nodes() const { return proto_.graph().node(); }

  /// Returns the version of ai.onnx that the model imports.
  int64_t opset() const;
  void set_opset(int64_t version);
  /// Imports version 1 of a domain unless the model imports the domain already.
  void import(const std::string& domain);

  /// Returns the value of an initializer, a Constant, or an Identity, Reshape, Squeeze, Unsqueeze of these; nullptr if
  /// the name means anything else.
  const Tensor* constant(const std::string& name) const;
  /// Whether a node only computes a constant().
  bool makes_constant(const pb::NodeProto& node) const;
  /// Whether a name is that of an input of the graph, perhaps with an initializer.
  bool is_input(const std::string& name) const;
  bool is_output(const std::string& name) const { return outputs_.contains(name); }

  /// Makes an f32 value an input or an output of the graph, unless it is an output already. Declares no shape.
  void add_input(const std::string& value);
  void add_output(const std::string& value);
  /// Removes the declarations of inputs, outputs and other values.
  void clear_ports();

  /// Returns a name that starts with `hint` and is not in use in the model, and reserves it.
  std::string fresh(const std::string& hint);
  /// Adds an initializer under a fresh name, which it returns.
  std::string add(const std::string& hint, Tensor tensor);
  std::string add(const std::string& hint, const Int4& tensor);

  /// Removes initializers, Constants and declarations that nothing reads any more.
  void remove_unused();
  /// Writes the model. Weights are stored inside, or in `FILE.weights` when they exceed `inside_bytes` bytes. Throws
  /// io.
  void save(const std::filesystem::path& file, int64_t inside_bytes = int64_t{1} << 30) const;
  /// Returns the bytes of all initializers and Constants.
  int64_t weight_bytes() const;

 private:
  void read_initializers(const std::filesystem::path& file);
  void sort_nodes();
  pb::TensorProto& add_header(const std::string& hint, int32_t type, const Shape& shape);
  void note_constants();
  void note_names();
  const Tensor* view_of(const pb::NodeProto& node);
  int64_t initializer_bytes() const;

  std::string file_;
  pb::ModelProto proto_;  ///< initializers have no payload here, except those of types that tensors_ lacks
  std::map<std::string, Tensor> tensors_;    ///< of initializers
  std::map<std::string, Tensor> constants_;  ///< of nodes whose values are constant
  std::set<std::string> names_;              ///< of values and nodes, those inside subgraphs included
  std::set<std::string> outputs_;
};

/// Where the values of a graph are read. Indices are those of Document::nodes().
class Uses {
 public:
  explicit Uses(Document& document);
  /// Returns the nodes that read a value, each once, without those whose subgraphs read it.
  const std::vector<int>& readers(const std::string& value) const;
  /// Whether a subgraph reads the value or it is an output of the graph.
  bool read_elsewhere(const std::string& value) const { return elsewhere_.contains(value); }
  /// Returns the only reader of a value, or -1 if it is read by several nodes, by none, or elsewhere.
  int only_reader(const std::string& value) const;

 private:
  std::map<std::string, std::vector<int>> readers_;
  std::set<std::string> elsewhere_;
};

}  // namespace kilter::quantize
