#include "ops/support/relayout.h"

#include <fmt/format.h>

#include "ops/op.h"

namespace kilter {

ValueId add_relayout(Graph& graph, ValueId from, const Layout& layout, std::string_view why) {
  TensorType type = graph.type(from);
  type.layout = layout;
  const std::string name = fmt::format("{}.{}", graph.value(from).name, why);
  const NodeId id = graph.add_node(find_op("kilter", "Relayout", 1), name, 1, {}, {from}, {type}, {name});
  return graph.node(id).outputs[0];
}

}  // namespace kilter
