#include "compile/origins.h"

#include <algorithm>
#include <set>

#include "ops/op.h"

namespace kilter {
namespace {

class Origins {
 public:
  Origins(const PassedGraph& passed, const Compiled& compiled)
      : graph_(passed.graph), model_nodes_(static_cast<NodeId>(passed.model_inputs.size())) {
    for (size_t s = 0; s < compiled.notes.size(); ++s) {
      for (const std::string& node : compiled.notes[s].nodes) layer_of_.emplace(node, compiled.plan.steps[s].name);
    }
    for (NodeId id = 0; id < static_cast<NodeId>(graph_.node_count()); ++id) {
      bearers_[graph_.node(id).name].push_back(id);
      for (const ValueId in : id < model_nodes_ ? passed.model_inputs[static_cast<size_t>(id)] : graph_.node(id).inputs)
        readers_[in].push_back(id);
    }
  }

  std::map<std::string, std::vector<std::string>> layers() {
    for (NodeId id : graph_.order()) {
      const auto layer = layer_of_.find(graph_.node(id).name);
      if (layer == layer_of_.end() || graph_.node(id).op->name == "Relayout") continue;
      add(origin(id), layer->second);
      if (id < model_nodes_) add(graph_.node(id).name, layer->second);
    }
    const auto known = found_;
    for (NodeId id = 0; id < model_nodes_; ++id) {
      const std::string& name = graph_.node(id).name;
      if (!graph_.node(id).dead || known.contains(name)) continue;
      visited_.clear();
      follow(id, name);
    }
    std::erase_if(found_, [](const auto& f) { return f.second == std::vector{f.first}; });
    return std::move(found_);
  }

 private:
  void add(const std::string& node, const std::string& layer) {
    std::vector<std::string>& layers = found_[node];
    if (std::ranges::find(layers, layer) == layers.end()) layers.push_back(layer);
  }

  /// Name of the model's node that a node is, or was made for.
  std::string origin(NodeId id) const {
    std::string name = graph_.node(id).named_after;
    while (id >= model_nodes_) {
      const NodeId maker = bearer(name, id);
      if (maker == kNone) {
        const size_t dot = name.rfind('.');
        if (dot == std::string::npos) break;
        name.resize(dot);
        continue;
      }
      id = maker;
      name = graph_.node(id).named_after;
    }
    return name;
  }

  /// The last node before `id` that had this name; kNone without one.
  NodeId bearer(const std::string& name, NodeId id) const {
    const auto found = bearers_.find(name);
    if (found == bearers_.end()) return kNone;
    const auto after = std::ranges::lower_bound(found->second, id);
    return after == found->second.begin() ? kNone : *std::prev(after);
  }

  /// Adds the layers that make what a dead node made; where nobody does, those that run what its readers became.
  void follow(NodeId id, const std::string& name) {
    if (!visited_.insert(id).second) return;
    for (const ValueId out : graph_.node(id).outputs) {
      if (out == kNone) continue;
      const ValueId by = graph_.value(out).replaced_by;
      if (by == kNone) {
        for (const NodeId reader : readers_[out]) arrive(reader, name);
      } else if (const NodeId maker = graph_.value(by).producer; maker != kNone) {
        arrive(maker, name);
      }
    }
  }

  void arrive(NodeId id, const std::string& name) {
    if (graph_.node(id).dead) return follow(id, name);
    const auto layer = layer_of_.find(graph_.node(id).name);
    if (layer != layer_of_.end()) add(name, layer->second);
  }

  const Graph& graph_;
  NodeId model_nodes_;
  std::map<std::string, std::string> layer_of_;         ///< by node
  std::map<std::string, std::vector<NodeId>> bearers_;  ///< by name, ascending; dead ones too
  std::map<ValueId, std::vector<NodeId>> readers_;      ///< of the model's nodes what they read before the passes
  std::set<NodeId> visited_;
  std::map<std::string, std::vector<std::string>> found_;
};

}  // namespace

std::map<std::string, std::vector<std::string>> layers_of_nodes(const PassedGraph& passed, const Compiled& compiled) {
  return Origins(passed, compiled).layers();
}

}  // namespace kilter
