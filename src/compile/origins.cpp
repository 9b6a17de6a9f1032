#include "compile/origins.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "ops/op.h"

namespace kilter {
namespace {

class Origins {
 public:
  Origins(const PassedGraph& passed, const Compiled& compiled)
      : graph_(passed.graph), model_nodes_(static_cast<NodeId>(passed.model_inputs.size())) {
    for (size_t s = 0; s < compiled.notes.size(); ++s) {
      for (const std::string& node : compiled.notes[s].nodes) layer_of_.emplace(node, &compiled.plan.steps[s].name);
    }
    readers_.resize(graph_.value_count());
    for (NodeId id = 0; id < static_cast<NodeId>(graph_.node_count()); ++id) {
      bearers_[graph_.node(id).name].push_back(id);
      for (const ValueId in :
           id < model_nodes_ ? passed.model_inputs[static_cast<size_t>(id)] : graph_.node(id).inputs) {
        if (in != kNone) readers_[static_cast<size_t>(in)].push_back(id);
      }
    }
  }

  std::map<std::string, std::vector<std::string>> layers() {
    for (NodeId id : graph_.order()) {
      const auto layer = layer_of_.find(graph_.node(id).name);
      if (layer == layer_of_.end() || graph_.node(id).op->movement == Movement::relayout) continue;
      add_to(found_[origin(id)], *layer->second);
      if (id < model_nodes_) add_to(found_[graph_.node(id).name], *layer->second);
    }
    std::map<std::string, std::vector<std::string>> gone;
    // Later nodes are followed first, so that earlier nodes that lead to them reuse their results.
    for (NodeId id = model_nodes_; id-- > 0;) {
      if (!graph_.node(id).dead) continue;
      const std::vector<std::string>& layers = followed_[id] = follow(id);
      for (const std::string& layer : layers) add_to(gone[graph_.node(id).name], layer);
    }
    found_.merge(gone);  // for a name that still exists, the layers that run it now take precedence
    std::erase_if(found_, [](const auto& f) { return f.second == std::vector{f.first} || f.second.empty(); });
    return std::move(found_);
  }

 private:
  static void add_to(std::vector<std::string>& layers, const std::string& layer) {
    if (layers.size() < kMostLayers && std::ranges::find(layers, layer) == layers.end()) layers.push_back(layer);
  }

  /// The name of the model's node that this node is, or for which it was created.
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

  /// The last node before `id` that had this name; kNone if there is none.
  NodeId bearer(const std::string& name, NodeId id) const {
    const auto found = bearers_.find(name);
    if (found == bearers_.end()) return kNone;
    const auto after = std::ranges::lower_bound(found->second, id);
    return after == found->second.begin() ? kNone : *std::prev(after);
  }

  /// The layers that compute what a dead node computed; if there are none, the layers that run the replacements of its
  /// readers.
  std::vector<std::string> follow(NodeId from) const {
    std::vector<std::string> layers;
    std::set<NodeId> visited;
    std::vector<NodeId> open{from};
    while (!open.empty()) {
      const NodeId id = open.back();
      open.pop_back();
      if (!visited.insert(id).second) continue;
      if (!graph_.node(id).dead) {
        const auto layer = layer_of_.find(graph_.node(id).name);
        if (layer != layer_of_.end()) add_to(layers, *layer->second);
      } else if (const auto known = followed_.find(id); known != followed_.end()) {
        for (const std::string& layer : known->second) add_to(layers, layer);
      } else {
        const std::vector<NodeId> next = leads_to(id);
        open.insert(open.end(), next.rbegin(), next.rend());
      }
    }
    return layers;
  }

  /// The nodes that now compute what a dead node computed; if a value has no replacement, the nodes that read it.
  std::vector<NodeId> leads_to(NodeId id) const {
    std::vector<NodeId> nodes;
    for (const ValueId out : graph_.node(id).outputs) {
      if (out == kNone) continue;
      const ValueId by = graph_.value(out).replaced_by;
      if (by == kNone) {
        const std::vector<NodeId>& readers = readers_[static_cast<size_t>(out)];
        nodes.insert(nodes.end(), readers.begin(), readers.end());
      } else if (const NodeId maker = graph_.value(by).producer; maker != kNone) {
        nodes.push_back(maker);
      }
    }
    return nodes;
  }

  static constexpr size_t kMostLayers = 256;  ///< limit on the layers reported for one node of the model

  const Graph& graph_;
  NodeId model_nodes_;
  std::unordered_map<std::string_view, const std::string*> layer_of_;  ///< by node
  std::unordered_map<std::string_view, std::vector<NodeId>> bearers_;  ///< by name, ascending; includes dead ones
  std::vector<std::vector<NodeId>> readers_;  ///< by value; the model's nodes count with their inputs before the passes
  std::unordered_map<NodeId, std::vector<std::string>> followed_;  ///< by dead node: the result of follow()
  std::map<std::string, std::vector<std::string>> found_;
};

}  // namespace

std::map<std::string, std::vector<std::string>> layers_of_nodes(const PassedGraph& passed, const Compiled& compiled) {
  return Origins(passed, compiled).layers();
}

}  // namespace kilter
