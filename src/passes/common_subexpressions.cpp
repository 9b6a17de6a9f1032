// Merges nodes that compute the same value: equal operator, attributes and operands. Constants with equal bytes are
// equal operands.
//
//   %a = Exp(%x)                  %a = Exp(%x)
//   %b = Exp(%x)          =>      %c = Add(%a, %a)
//   %c = Add(%a, %b)

#include <map>
#include <unordered_map>

#include "graph/equal.h"
#include "graph/values.h"
#include "ops/op.h"
#include "passes/pass.h"

namespace kilter {
namespace {

class Merger {
 public:
  Merger(Graph& graph, PassContext& context) : graph_(graph), read_(graph), context_(context) {}

  void run() {
    for (const NodeId id : std::vector<NodeId>(read_.order())) {
      const Node& node = read_.node(id);
      if (!node.op->deterministic) continue;
      const auto key = std::make_pair(node.op, operands(node));
      bool merged = false;
      for (auto [it, end] = seen_.equal_range(key); it != end && !merged; ++it) merged = merge(id, it->second);
      if (!merged) seen_.emplace(key, id);
    }
    graph_.remove_dead();
  }

 private:
  /// The inputs of a node, with the first of equal constants in place of each.
  std::vector<ValueId> operands(const Node& node) {
    std::vector<ValueId> all = node.inputs;
    for (ValueId& v : all) {
      const Tensor* constant = constant_of(read_, v);
      if (constant == nullptr) continue;
      const auto [known, fresh] = numbers_.emplace(v, v);
      if (fresh) known->second = constants_.first(v, *constant);
      v = known->second;
    }
    return all;
  }

  /// Merges a node into an earlier one with the same operands, if they compute the same.
  bool merge(NodeId id, NodeId into) {
    const Node &node = read_.node(id), &first = read_.node(into);
    if (!same_operation(first, node)) return false;
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const ValueId out = node.outputs[i];
      if (out != kNone && (read_.is_output(out) || read_.type(first.outputs[i]) != read_.type(out))) return false;
    }
    if (!context_.take()) return false;
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i] != kNone) graph_.replace_uses(node.outputs[i], first.outputs[i]);
    }
    graph_.erase(id);
    return true;
  }

  Graph& graph_;
  const Graph& read_;
  PassContext& context_;
  EqualConstants constants_;
  std::unordered_map<ValueId, ValueId> numbers_;  ///< of constants: the first equal one
  std::multimap<std::pair<const OpDef*, std::vector<ValueId>>, NodeId> seen_;
};

}  // namespace

void common_subexpressions(Graph& graph, PassContext& context) { Merger(graph, context).run(); }

}  // namespace kilter
