// Rewrites of single nodes as rows of a table, and the driver that applies them.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/values.h"
#include "ops/support/builder.h"
#include "passes/pass.h"
#include "passes/tried_rewrites.h"

namespace kilter {

/// The outcome of a rewrite for one node: the value that replaces the node's first output, or why there is none.
class Patch {
 public:
  /// No match: the pattern does not start at this node, so no reason is needed.
  Patch() = default;
  Patch(ValueId value) : value_(value) {}

  explicit operator bool() const { return value_ != kNone; }
  ValueId operator*() const { return value_; }
  std::string_view why_not() const { return why_not_; }

 private:
  friend Patch no(std::string_view why);
  ValueId value_ = kNone;
  std::string_view why_not_;
};
/// The patch of a rewrite that does not apply. `why` completes "not applied: ..."; it must outlive all passes.
inline Patch no(std::string_view why) {
  Patch patch;
  patch.why_not_ = why;
  return patch;
}

/// A rewrite of a pass whose rewrites are member functions of `Rules`.
template <class Rules>
struct RewriteRow : Rewrite {
  /// Changes the graph only if it returns a value.
  Patch (Rules::*apply)(const Node&) = nullptr;
  int sweep = 0;  ///< the sweep of the pass that tries this row
};

/// The base class of a pass that is a table of rewrites. `Rules` has the static functions pass(), its name, and rows(),
/// its table; only nodes for which looks_at() returns true are tried, so looks_at() must do so for every node that a
/// row matches.
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

  /// Applies the first row that matches a node, unless `--max-rewrites` is reached. The node need not be in the graph.
  Patch rewrite(const Node& node, int sweep = 0) {
    for (const Enabled& enabled : enabled_) {
      const std::vector<std::string_view>& ops = enabled.row->ops;
      if (enabled.row->sweep != sweep) continue;
      const bool listed = std::ranges::find(ops, node.op->name) != ops.end();
      if (!listed && (!ops.empty() || !node.op->domain.empty())) continue;  // without operators: for all of ONNX's
      if (!context_.take()) return {};                                      // before the row changes the graph
      const Patch patch = (static_cast<Rules*>(this)->*enabled.row->apply)(node);
      if (context_.tried != nullptr) context_.tried->add(node.name, enabled.name, bool(patch), patch.why_not());
      if (patch) {
        ++context_.applied[enabled.name];
        return patch;
      }
      context_.put_back();
    }
    return {};
  }

  /// Rewrites every node once, in order, by the rows of a sweep. Returns whether any was rewritten. `renames`: values
  /// that replace outputs take over their names.
  bool sweep(bool renames, int number = 0) {
    bool changed = false;
    for (NodeId id : std::vector<NodeId>(graph_.order())) {
      const Node& node = graph_.node(id);
      if (node.dead || (!node.op->domain.empty() && node.op->domain != "kilter") || node.outputs[0] == kNone) continue;
      if (!static_cast<const Rules*>(this)->looks_at(node)) continue;
      const Patch to = rewrite(node, number);
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
