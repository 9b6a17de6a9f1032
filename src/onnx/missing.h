// The operators that a model needs and Kilter lacks.
#pragma once

#include <vector>

#include "onnx/model_data.h"

namespace kilter::onnx {

/// Collects the missing operators of node lists, sorted by operator, each with its nodes.
class MissingOps {
 public:
  explicit MissingOps(const ModelData& model) : model_(model) {}
  /// Examines the nodes, the functions that they call and the graphs inside them, but the branches of an If only if
  /// `branches` is set. An If itself never counts as missing here.
  void look(const google::protobuf::RepeatedPtrField<pb::NodeProto>& nodes, const Opsets& opsets, bool branches);
  void add(Missing missing) { found_.push_back(std::move(missing)); }
  std::vector<Missing> list() const { return found_; }
  /// Throws unsupported with the whole list if it is not empty.
  void fail_if_any() const;

 private:
  void look(const pb::NodeProto& node, const Opsets& opsets, bool branches);

  const ModelData& model_;
  std::string prefix_;
  std::vector<Missing> found_;
  std::map<std::string, size_t> index_;
  std::map<const Function*, bool> seen_;
};

/// Returns whether the node is If of ai.onnx (and no function has that name).
bool is_if(const pb::NodeProto& node, const ModelData& model);

}  // namespace kilter::onnx
