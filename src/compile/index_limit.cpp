#include "compile/index_limit.h"

#include <algorithm>
#include <set>

#include "ops/support/indexing.h"
#include "ops/support/recurrent.h"

namespace kilter {
namespace {

void lower(std::optional<int64_t>& limit, const std::vector<int64_t>& sizes) {
  for (const int64_t size : sizes) limit = std::min(limit.value_or(size), size);
}

/// Returns whether all values in a node's results come from its first operand.
bool moves_values(const Node& node) {
  const Family family = node.op->family;
  return family == Family::reshape || family == Family::movement || node.op->passes_values;
}

void lower_by_user(std::optional<int64_t>& limit, const Graph& graph, const Node& node, ValueId value) {
  if (node.op->position_input >= 0 && node.input(static_cast<size_t>(node.op->position_input)) == value)
    return lower(limit, {graph.type(node.inputs[1]).shape.front()});
  const RecurrentForm* recurrent = find_recurrent_form(node);
  if (recurrent != nullptr && node.input(recurrent->lens) == value)
    return lower(limit, length_range(recurrent_shape(view(graph, node))).sizes);
  if (node.inputs.size() < 2 || node.inputs[1] != value) return;
  const auto range = index_range(node, graph.type(node.inputs[0]).shape, graph.type(value).shape);
  if (range) lower(limit, range->sizes);
}

bool same_place(const BufferRef& a, const BufferRef& b) {
  return a.space == b.space && a.offset == b.offset && a.index == b.index;
}

}  // namespace

std::optional<int64_t> index_limit(const Graph& graph, ValueId value) {
  std::optional<int64_t> limit;
  std::set<ValueId> seen{value};
  std::vector<ValueId> open{value};
  while (!open.empty()) {
    const ValueId v = open.back();
    open.pop_back();
    for (const NodeId id : graph.users(v)) {
      const Node& node = graph.node(id);
      lower_by_user(limit, graph, node, v);
      if (!moves_values(node)) continue;
      for (const ValueId out : node.outputs) {
        if (out != kNone && seen.insert(out).second) open.push_back(out);
      }
    }
  }
  return limit;
}

std::optional<int64_t> index_limit(const Plan& plan, int32_t input) {
  std::optional<int64_t> limit;
  std::vector<BufferRef> places{{Space::input, 0, input, 0}};
  const auto holds = [&](const BufferRef& ref) {
    return std::ranges::any_of(places, [&](const BufferRef& place) { return same_place(place, ref); });
  };
  for (const Step& step : plan.steps) {
    if (step.indices.arg >= 0 && holds(step.args[static_cast<size_t>(step.indices.arg)]))
      lower(limit, step.indices.range.sizes);
    if (step.ops == "Cast" && step.args.size() == 2 && holds(step.args[0])) places.push_back(step.args[1]);
  }
  return limit;
}

}  // namespace kilter
