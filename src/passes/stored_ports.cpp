#include "passes/stored_ports.h"

#include <algorithm>
#include <vector>

#include "ops/op.h"
#include "ops/support/relayout.h"

namespace kilter {

bool stores_port(const PassContext& context, const std::string& port, DType type) {
  const auto found = context.stored_ports.find(port);
  return found != context.stored_ports.end() && found->second.stored == type;
}

void store_ports(Graph& graph, const PassContext& context, DType type, const std::function<bool()>& changes) {
  const auto stored = [&](const std::string& port, ValueId v) {
    return stores_port(context, port, type) && graph.type(v).dtype == DType::f32 && changes();
  };
  bool any = false;
  for (ValueId v : graph.inputs()) {
    if (!stored(graph.value(v).name, v)) continue;
    const std::vector<NodeId> readers = graph.users(v);
    Layout layout = graph.type(v).layout;
    const Layout& wanted = context.stored_ports.at(graph.value(v).name);
    layout.stored = wanted.stored, layout.zero = wanted.zero;
    const ValueId copy = add_relayout(graph, v, layout, name(type));
    for (NodeId reader : readers) std::ranges::replace(graph.change_node(reader).inputs, v, copy);
    any = true;
  }
  for (size_t i = 0; i < graph.outputs().size(); ++i) {
    const ValueId v = graph.outputs()[i].value;
    const NodeId producer = graph.value(v).producer;
    const bool copied = producer != kNone && graph.node(producer).op->movement == Movement::relayout;
    if (!stored(graph.outputs()[i].name, v)) continue;
    graph.set_output(i, add_relayout(graph, copied ? graph.node(producer).inputs[0] : v, Layout{}, "stored"));
    any = true;
  }
  if (any) graph.sort();
}

}  // namespace kilter
