#include "vm/regions.h"

#include "base/error.h"
#include "ops/op.h"

namespace kilter::vm {

size_t region_of(const OpenNode& node, std::string_view attribute, size_t inputs, size_t least_outputs) {
  const Region* region = node.region(attribute);
  const std::string expected = fmt::format("expected a graph with {} inputs and at least {} outputs as its {}, got ",
                                           inputs, least_outputs, attribute);
  if (region == nullptr) node_error(node, expected + "none");
  if (region->graph->own_inputs != inputs || region->graph->outputs.size() < least_outputs) {
    node_error(node, fmt::format("{}{} inputs and {} outputs", expected, region->graph->own_inputs,
                                 region->graph->outputs.size()));
  }
  return static_cast<size_t>(region - node.regions.data());
}

bool truth(const OpenNode& node, const AnyValue& value, std::string_view what) {
  if (!value.is_tensor() || value.tensor().dtype() != DType::boolean || value.tensor().elems() != 1)
    node_error(node, fmt::format("{} is {}, expected one bool", what, text(value)));
  return *value.tensor().data<bool>();
}

size_t chosen_branch(const OpenNode& node, const AnyValue& condition) {
  const bool holds = truth(node, condition, "the condition");
  return region_of(node, holds ? "then_branch" : "else_branch", 0, node.outputs.size());
}

}  // namespace kilter::vm
