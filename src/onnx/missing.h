// The operators that a model needs and Kilter lacks.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/open_graph.h"
#include "onnx/model.h"

namespace kilter::onnx {

/// Collects the missing operators of graphs, in the order of their first node, each with its nodes.
class MissingOps {
 public:
  /// `file` names the model in errors.
  explicit MissingOps(const std::string& file) : file_(file) {}
  /// Examines the nodes and the regions inside them, but the branches of an If only if `branches` is set.
  void look(const OpenGraph& graph, bool branches);
  void add(Missing missing) { found_.push_back(std::move(missing)); }
  std::vector<Missing> list() const { return found_; }
  /// Throws unsupported with the whole list if it is not empty.
  void fail_if_any() const;
  /// Throws unsupported for one node.
  [[noreturn]] void fail_for(const OpenNode& node);

 private:
  void add(const OpenNode& node);

  const std::string& file_;
  std::vector<Missing> found_;
  std::map<std::string, size_t> index_;
};

/// Returns whether the node is If of ai.onnx.
bool is_if(const OpenNode& node);

}  // namespace kilter::onnx
