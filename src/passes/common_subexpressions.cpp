// Merges nodes that compute the same value: equal operator, attributes and operands.
//
//   %a = Exp(%x)                  %a = Exp(%x)
//   %b = Exp(%x)          =>      %c = Add(%a, %a)
//   %c = Add(%a, %b)

#include <map>

#include "ops/op.h"
#include "passes/pass.h"

namespace kilter {
namespace {

bool same_attr(const Attr& a, const Attr& b) {
  if (a.index() != b.index()) return false;
  return std::visit(
      [&]<class T>(const T& x) {
        const T& y = std::get<T>(b);
        if constexpr (std::is_same_v<T, Tensor>) {
          return x.same(y);
        } else {
          return x == y;
        }
      },
      a);
}

bool same_node(const Graph& graph, const Node& a, const Node& b) {
  if (a.op != b.op || a.opset != b.opset || a.inputs != b.inputs || a.outputs.size() != b.outputs.size()) return false;
  for (size_t i = 0; i < a.outputs.size(); ++i) {
    if ((a.outputs[i] == kNone) != (b.outputs[i] == kNone)) return false;
    if (a.outputs[i] != kNone && graph.type(a.outputs[i]) != graph.type(b.outputs[i])) return false;
  }
  if (a.attrs.size() != b.attrs.size()) return false;
  for (auto x = a.attrs.begin(), y = b.attrs.begin(); x != a.attrs.end(); ++x, ++y) {
    if (x->first != y->first || !same_attr(x->second, y->second)) return false;
  }
  return true;
}

bool any_output(const Graph& graph, const Node& node) {
  for (ValueId out : node.outputs) {
    if (out != kNone && graph.is_output(out)) return true;
  }
  return false;
}

}  // namespace

void common_subexpressions(Graph& graph, PassContext& context) {
  const Graph& read = graph;
  std::multimap<std::pair<const OpDef*, std::vector<ValueId>>, NodeId> seen;
  for (NodeId id : std::vector<NodeId>(graph.order())) {
    const Node& node = read.node(id);
    if (!node.op->deterministic) continue;
    const auto key = std::make_pair(node.op, node.inputs);
    bool merged = false;
    for (auto [it, end] = seen.equal_range(key); it != end && !merged; ++it) {
      const Node& first = read.node(it->second);
      if (!same_node(graph, first, node) || any_output(graph, node) || !context.take()) continue;
      for (size_t i = 0; i < node.outputs.size(); ++i) {
        if (node.outputs[i] != kNone) graph.replace_uses(node.outputs[i], first.outputs[i]);
      }
      graph.erase(id);
      merged = true;
    }
    if (!merged) seen.emplace(key, id);
  }
  graph.remove_dead();
}

}  // namespace kilter
