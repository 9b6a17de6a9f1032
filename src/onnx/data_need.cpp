#include "onnx/data_need.h"

#include "onnx/schema.h"
#include "ops/op.h"

namespace kilter::onnx {

DataNeed trace_need(const Graph& graph, ValueId value) {
  DataNeed need;
  const auto obstruct = [&](std::string why) {
    if (need.known_by_inputs) need.obstacle = std::move(why);
    need.known_by_inputs = false;
  };
  std::vector<bool> seen(graph.value_count());
  std::vector<ValueId> open{value};
  while (!open.empty()) {
    const ValueId at = open.back();
    open.pop_back();
    if (at == kNone || seen[static_cast<size_t>(at)]) continue;
    seen[static_cast<size_t>(at)] = true;
    const Value& v = graph.value(at);
    if (v.constant) continue;
    if (v.producer != kNone) {
      const Node& node = graph.node(v.producer);
      if (!node.op->deterministic) obstruct(fmt::format("{} {} is random", node.op->name, quote(node.name)));
      open.insert(open.end(), node.inputs.begin(), node.inputs.end());
      continue;
    }
    need.inputs.push_back(at);
    const int64_t most = is_float(v.type.dtype) ? kMostFloatElems : kMostElems;
    if (elems(v.type.shape) > most) {
      obstruct(fmt::format("input {} ({}) has more than {} elements", quote(v.name), text(v.type), most));
    }
  }
  if (need.inputs.empty()) obstruct("it is computed from constants, but too large to compute while compiling");
  return need;
}

}  // namespace kilter::onnx
