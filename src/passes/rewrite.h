// Rewrites of single nodes as rows of a table, and the driver that applies them.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/values.h"
#include "ops/support/builder.h"
#include "passes/pass.h"

namespace kilter {

/// A rewrite of a pass whose rewrites are member functions of `Rules`.
template <class Rules>
struct RewriteRow : Rewrite {
  /// Returns the value that replaces the node's first output, or nullopt if the pattern does not match. Calls
  /// PassContext::take() before it changes the graph.
  std::optional<ValueId> (Rules::*apply)(const Node&) = nullptr;
  int sweep = 0;  ///< the sweep of the pass that tries this row
};

/// The base class of a pass that is a table of rewrites. `Rules` has the static functions pass(), its name, and rows(),
/// its table; only nodes for which looks_at() returns true are tried, so it must do so for every node that a row
/// matches.
template <class Rules>
class RewritePass {
 public:
  RewritePass(Graph& graph, PassContext& context) : graph_(graph), context_(context), b_(graph) {
    for (const RewriteRow<Rules>& row : Rules::rows()) {
      std::string name = full_name(Rules::pass(), row.name);
      if (!context.disabled.contains(name)) enabled_.push_back({&row, std::move(name)});
    }
  }

  /// The table without its functions.
  static std::vector<Rewrite> rewrites() { return {Rules::rows().begin(), Rules::rows().end()}; }

 protected:
  const TensorType& type(ValueId v) const { return graph_.type(v); }
  const Tensor* constant(ValueId v) const { return constant_of(graph_, v); }
  bool f32(ValueId v) const { return type(v).dtype == DType::f32; }

  /// Applies the first row that matches a node. The node need not be in the graph.
  std::optional<ValueId> rewrite(const Node& node, int sweep = 0) {
    for (const Enabled& enabled : enabled_) {
      const std::vector<std::string_view>& ops = enabled.row->ops;
      if (enabled.row->sweep != sweep) continue;
      if (!ops.empty() && std::ranges::find(ops, node.op->name) == ops.end()) continue;
      const std::optional<ValueId> to = (static_cast<Rules*>(this)->*enabled.row->apply)(node);
      if (!to) continue;
      ++context_.applied[enabled.name];
      return to;
    }
    return std::nullopt;
  }

  /// Rewrites every node once, in order, by the rows of a sweep. Returns whether any was rewritten. `renames`: values
  /// that replace outputs take over their names.
  bool sweep(bool renames, int number = 0) {
    bool changed = false;
    for (NodeId id : std::vector<NodeId>(graph_.order())) {
      const Node& node = graph_.node(id);
      if (node.dead || !node.op->domain.empty() || node.outputs[0] == kNone) continue;
      if (!static_cast<const Rules*>(this)->looks_at(node)) continue;
      const std::optional<ValueId> to = rewrite(node, number);
      if (!to || *to == node.outputs[0]) continue;
      const std::string name = graph_.value(node.outputs[0]).name;
      graph_.replace_uses(node.outputs[0], *to);
      graph_.erase(id);
      if (renames) graph_.rename(*to, name);
      changed = true;
    }
    return changed;
  }
  /// Call this after the last sweep.
  void finish() {
    graph_.sort();
    graph_.remove_dead();
  }

  Graph& graph_;
  PassContext& context_;
  GraphBuilder b_;

 private:
  struct Enabled {
    const RewriteRow<Rules>* row;
    std::string name;
  };
  std::vector<Enabled> enabled_;
};

}  // namespace kilter
