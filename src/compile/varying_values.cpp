#include "compile/varying_values.h"

#include <algorithm>

#include "onnx/specialise.h"

namespace kilter {
namespace {

/// What is known about a value once the shapes of the inputs are known.
struct Known {
  Shape shape;
  bool constant = false;
};

/// By value of the graph; nullopt if the network is not a static graph.
std::optional<std::vector<Known>> known_values(const OpenGraph& open, const std::string& name,
                                               std::span<const TensorType> inputs) {
  Graph graph;
  onnx::Specialiser specialiser(open, graph, name, onnx::Specialiser::Mode::segment);
  if (!specialiser.walk_from(inputs)) return std::nullopt;
  std::vector<Known> known(open.values.size());
  const auto note = [&](ValueId id) {
    const ValueId value = specialiser.value(id);
    if (value != kNone)
      known[static_cast<size_t>(id)] = {graph.type(value).shape, graph.value(value).constant.has_value()};
  };
  for (const ValueId id : open.inputs) note(id);
  for (const OpenNode& node : open.nodes) {
    for (const auto* values : {&node.inputs, &node.outputs}) {
      for (const ValueId id : *values) {
        if (id != kNone) note(id);
      }
    }
  }
  return known;
}

}  // namespace

std::optional<Varying> find_varying(const OpenGraph& graph, const std::string& name, std::span<const TensorType> one,
                                    std::span<const TensorType> other) {
  const auto a = known_values(graph, name, one), b = known_values(graph, name, other);
  if (!a || !b) return std::nullopt;
  Varying out;
  for (size_t v = 0; v < graph.values.size(); ++v) out.values.push_back((*a)[v].shape != (*b)[v].shape);
  double all = 0, varying = 0;
  for (const OpenNode& node : graph.nodes) {
    const auto varies = [&](ValueId v) { return v != kNone && out.values[static_cast<size_t>(v)]; };
    const auto constant = [&](ValueId v) { return v == kNone || (*a)[static_cast<size_t>(v)].constant; };
    const bool depends = std::ranges::any_of(node.inputs, varies);
    if (std::ranges::all_of(node.outputs, constant)) {
      for (const ValueId v : node.outputs) {
        if (v != kNone && depends) out.values[static_cast<size_t>(v)] = true;
      }
      continue;
    }
    double elements = 0;
    for (const auto* values : {&node.inputs, &node.outputs}) {
      for (const ValueId v : *values) {
        if (v != kNone) elements += static_cast<double>(elems((*b)[static_cast<size_t>(v)].shape));
      }
    }
    all += elements;
    if (depends || std::ranges::any_of(node.outputs, varies)) varying += elements;
  }
  if (all > 0) out.share = varying / all;
  return out;
}

}  // namespace kilter
