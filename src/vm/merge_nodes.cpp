#include "vm/merge_nodes.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "graph/equal.h"
#include "graph/op_def.h"
#include "vm/host_op.h"

namespace kilter::vm {
namespace {

bool deterministic(const OpenNode& node) {
  return node.op != nullptr && node.op->deterministic && std::ranges::all_of(node.regions, [](const Region& region) {
           return std::ranges::all_of(region.graph->nodes, deterministic);
         });
}

class Merger {
 public:
  explicit Merger(const OpenGraph& graph)
      : graph_(graph), is_output_(graph.values.size()), becomes_(graph.values.size()) {
    std::iota(becomes_.begin(), becomes_.end(), 0);
    for (const OpenGraph::Output& output : graph.outputs) {
      if (output.value != kNone) is_output_[index(output.value)] = true;
    }
    for (size_t v = 0; v < graph.values.size(); ++v) {
      if (!graph.values[v].constant) continue;
      const auto id = static_cast<ValueId>(v);
      operand_.emplace(id, constants_.first(id, *graph.values[v].constant));
    }
  }

  /// Returns the merged graph; nullptr if it is the same.
  std::shared_ptr<const OpenGraph> run() {
    std::vector<OpenNode> nodes;
    for (const OpenNode& node : graph_.nodes) {
      OpenNode own = node;
      for (ValueId& v : own.inputs) v = replaced(v);
      for (Region& region : own.regions) {
        for (ValueId& v : region.captures) v = replaced(v);
        std::shared_ptr<const OpenGraph> inner = merge_nodes(region.graph);
        changed_ = changed_ || inner != region.graph;
        region.graph = std::move(inner);
      }
      if (!merged(own, nodes)) nodes.push_back(std::move(own));
    }
    if (!changed_) return nullptr;
    auto made = std::make_shared<OpenGraph>(graph_);
    made->nodes = std::move(nodes);
    return made;
  }

 private:
  static size_t index(ValueId v) { return static_cast<size_t>(v); }
  ValueId replaced(ValueId v) const { return v == kNone ? v : becomes_[index(v)]; }

  /// The value that stands for `v` when operands are compared.
  ValueId operand(ValueId v) const {
    const auto same = operand_.find(v);
    return same == operand_.end() ? v : same->second;
  }

  void note_alias(const OpenNode& node) {
    const bool is_alias = passes_on(*node.op) && node.inputs.size() == 1 && node.outputs.size() == 1 &&
                          node.inputs[0] != kNone && node.outputs[0] != kNone;
    if (is_alias) operand_.emplace(node.outputs[0], operand(node.inputs[0]));
  }

  /// Redirects the readers of a node to an equal one among `before`. Returns whether there is one.
  bool merged(const OpenNode& node, const std::vector<OpenNode>& before) {
    if (!deterministic(node)) return false;
    note_alias(node);
    const auto is_output = [&](ValueId v) { return v != kNone && is_output_[index(v)]; };
    std::pair<const OpDef*, std::vector<ValueId>> key{node.op, node.inputs};
    for (ValueId& v : key.second) v = operand(v);
    if (!std::ranges::any_of(node.outputs, is_output)) {
      for (auto [it, end] = seen_.equal_range(key); it != end; ++it) {
        const OpenNode& first = before[it->second];
        if (!same_operation(first, node) || !std::ranges::equal(first.regions, node.regions, same_region)) continue;
        for (size_t i = 0; i < node.outputs.size(); ++i) {
          if (node.outputs[i] != kNone) becomes_[index(node.outputs[i])] = first.outputs[i];
        }
        return changed_ = true;
      }
    }
    seen_.emplace(std::move(key), before.size());
    return false;
  }

  const OpenGraph& graph_;
  std::vector<bool> is_output_;
  std::vector<ValueId> becomes_;  ///< by value: the value that takes its place
  EqualConstants constants_;
  std::map<ValueId, ValueId> operand_;  ///< of constants: the first equal one; of results of Identity: the input
  std::multimap<std::pair<const OpDef*, std::vector<ValueId>>, size_t> seen_;
  bool changed_ = false;
};

}  // namespace

std::shared_ptr<const OpenGraph> merge_nodes(std::shared_ptr<const OpenGraph> graph) {
  std::shared_ptr<const OpenGraph> made = Merger(*graph).run();
  return made != nullptr ? made : graph;
}

}  // namespace kilter::vm
