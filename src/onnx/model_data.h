// The contents of a Model: the parsed file, its tensors and the results of the checks. Immutable once parsed, except
// for the open graph, which is created when it is first needed.
#pragma once

#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "graph/open_graph.h"
#include "onnx/functions.h"
#include "onnx/model.h"
#include "onnx/schema.h"
#include "onnx/structure.h"

namespace kilter::onnx {

struct ModelData {
  std::string file;  ///< name of the file in errors
  std::shared_ptr<const pb::ModelProto> proto;
  Opsets opsets;
  Functions functions;
  Orders orders;
  /// Tensors of initializers and attributes in all graphs. Sparse ones are converted to dense tensors, with their
  /// values as the key.
  std::unordered_map<const pb::TensorProto*, Tensor> tensors;
  std::vector<Port> inputs;
  std::vector<Port> default_inputs;  ///< inputs that have an initializer
  std::vector<Port> outputs;
  std::vector<Missing> odd_ports;  ///< inputs and outputs of other types than those of ports

  const pb::GraphProto& graph() const { return proto->graph(); }
  /// Returns the model's graph with its names resolved; see lower(). The first call with an empty `given` creates the
  /// graph that later ones share.
  std::shared_ptr<const OpenGraph> open_graph(const std::set<std::string>& given = {}) const;

 private:
  mutable std::once_flag lowered_;
  mutable std::shared_ptr<const OpenGraph> open_graph_;
};

struct Model::Impl : ModelData {};

/// Calls `visit` with every node of a list and of the graphs in their attributes.
template <class F>
void for_each_node(const google::protobuf::RepeatedPtrField<pb::NodeProto>& nodes, F&& visit) {
  for (const auto& node : nodes) {
    visit(node);
    for (const auto& attribute : node.attribute()) {
      for_each_node(attribute.g().node(), visit);
      for (const auto& graph : attribute.graphs()) for_each_node(graph.node(), visit);
    }
  }
}

/// Calls `visit` with every graph in the attributes of a list of nodes.
template <class F>
void for_each_inner_graph(const google::protobuf::RepeatedPtrField<pb::NodeProto>& nodes, F&& visit) {
  for_each_node(nodes, [&](const pb::NodeProto& node) {
    for (const auto& attribute : node.attribute()) {
      if (attribute.has_g()) visit(attribute.g());
      for (const auto& graph : attribute.graphs()) visit(graph);
    }
  });
}

/// Returns the version of a node's operator set. Loading has checked that it is imported.
int32_t opset_of(const Opsets& opsets, const pb::NodeProto& node);

}  // namespace kilter::onnx
