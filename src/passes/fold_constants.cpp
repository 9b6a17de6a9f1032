// Evaluates nodes whose operands are all constants, by their reference kernels.
//
//   %a = Mul(const 2, const 3)    =>    const 6

#include <algorithm>

#include "graph/values.h"
#include "ops/builder.h"
#include "passes/pass.h"

namespace kilter {
namespace {

constexpr int64_t kMaxGrowth = 1 << 20;  ///< elements that a result may have beyond its operands': Expand stays a node

bool foldable(const Graph& graph, const Node& node) {
  if (!node.op->deterministic || node.op->reference == nullptr) return false;
  int64_t from = 0, to = 0;
  for (ValueId in : node.inputs) {
    if (in == kNone) continue;
    if (constant_of(graph, in) == nullptr) return false;
    from += elems(graph.type(in).shape);
  }
  for (ValueId out : node.outputs) {
    if (out != kNone) to += elems(graph.type(out).shape);
  }
  return to <= from + kMaxGrowth;
}

}  // namespace

void fold_constants(Graph& graph, PassContext& context) {
  for (NodeId id : std::vector<NodeId>(graph.order())) {
    const Node node = static_cast<const Graph&>(graph).node(id);
    if (node.dead || !foldable(graph, node) || !context.take()) continue;
    std::vector<Tensor> inputs;
    for (ValueId in : node.inputs) inputs.push_back(in == kNone ? Tensor() : *constant_of(graph, in));
    std::vector<TensorType> types;
    for (ValueId out : node.outputs) types.push_back(out == kNone ? TensorType{} : graph.type(out));
    const std::vector<Tensor> results = run_reference(node, inputs, types);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i] == kNone) continue;
      const ValueId made = graph.add_constant(graph.fresh_name(graph.value(node.outputs[i]).name), results[i]);
      graph.replace_uses(node.outputs[i], made);
    }
    graph.erase(id);
  }
  graph.remove_dead();
}

}  // namespace kilter
