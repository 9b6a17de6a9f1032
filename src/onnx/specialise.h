// Creates a static graph from an open graph: infers every type from those of the inputs, folds shape computations, and
// replaces each If by the branch that runs.
#pragma once

#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "graph/open_graph.h"
#include "ops/support/builder.h"

namespace kilter::onnx {

/// Usage: construct, set() inputs, walk(), then value() of the outputs.
class Specialiser {
 public:
  enum class Mode {
    bind,     ///< create the whole graph or throw
    probe,    ///< only collect the graph inputs whose values are needed
    segment,  ///< as bind, but throw NeedsProgram for every value that is needed and not known
  };
  /// Adds nodes to `graph`. `file` names the model in errors. All three must outlive the specialiser.
  Specialiser(const OpenGraph& open, Graph& graph, const std::string& file, Mode mode);

  /// Maps an input, or any other value, of the open graph to a value of the static graph.
  void set(ValueId open, ValueId value) { values_[static_cast<size_t>(open)] = value; }
  /// Adds all nodes. In Mode::probe, nodes that need unknown values are left out.
  void walk();
  /// Adds inputs of these types, in the order of the open graph's, and all nodes. Returns false if shapes turn out to
  /// depend on data.
  bool walk_from(std::span<const TensorType> inputs);
  /// Returns the static value of an open value; kNone for kNone. Adds it first if it is a constant.
  ValueId value(ValueId open);
  /// The names of the graph inputs whose values are needed, in Mode::probe.
  const std::set<std::string>& needed() const { return *needed_; }

 private:
  void visit(const OpenNode& node);
  std::vector<ValueId> make(const OpenNode& node, const std::vector<ValueId>& inputs);
  std::vector<ValueId> add(const OpenNode& node, const std::vector<ValueId>& inputs);
  std::vector<ValueId> choose(const OpenNode& node, ValueId condition);
  /// Adds the nodes of a FlexAttention that has graphs.
  std::vector<ValueId> attend(const OpenNode& node, const std::vector<ValueId>& inputs);
  /// Adds the nodes of a region and returns its outputs.
  std::vector<ValueId> inlined(const Region& region, const std::vector<ValueId>& own_inputs);
  /// Handles a value that must be known but is not: records the inputs to ask for, or throws.
  void need_value(ValueId value, const std::string& what);

  const OpenGraph& open_;
  Graph& graph_;
  const std::string& file_;
  Mode mode_;
  std::vector<ValueId> values_;  ///< by open value
  std::shared_ptr<GraphBuilder> builder_;
  std::shared_ptr<std::set<std::string>> needed_ = std::make_shared<std::set<std::string>>();
};

}  // namespace kilter::onnx
