#include "graph/unite.h"

#include <optional>
#include <set>

namespace kilter {
namespace {

class Uniter {
 public:
  void add(const LabelledGraph& part) {
    const Graph& from = part.graph;
    label_ = part.label;
    values_.assign(from.value_count(), kNone);
    out_.names.emplace_back();
    for (const ValueId v : from.inputs()) become(from, v, out_.graph.add_input(name(from.value(v).name), from.type(v)));
    for (size_t i = 0; i < from.value_count(); ++i) {
      const auto v = static_cast<ValueId>(i);
      const Value& value = from.value(v);
      if (value.constant && !value.dead) become(from, v, out_.graph.add_constant(name(value.name), *value.constant));
    }
    for (const NodeId id : from.order()) add_node(from, from.node(id));
    for (const Graph::Output& output : from.outputs()) {
      std::string unique = output.name;
      while (!outputs_.insert(unique).second) unique += "@" + label_;
      out_.graph.add_output(value(output.value), unique);
    }
    for (const auto& [own, now] : out_.names.back()) taken_.insert(now);
  }

  UnitedGraph take() { return std::move(out_); }

 private:
  std::string name(const std::string& own) const { return taken_.contains(own) ? own + "@" + label_ : own; }
  ValueId value(ValueId v) const { return v == kNone ? kNone : values_[static_cast<size_t>(v)]; }

  void become(const Graph& from, ValueId v, ValueId now) {
    values_[static_cast<size_t>(v)] = now;
    out_.names.back().emplace(from.value(v).name, out_.graph.value(now).name);
  }

  void add_node(const Graph& from, const Node& node) {
    std::vector<ValueId> inputs;
    for (const ValueId v : node.inputs) inputs.push_back(value(v));
    std::vector<std::optional<TensorType>> types;
    std::vector<std::string> names;
    for (const ValueId v : node.outputs) {
      types.push_back(v == kNone ? std::nullopt : std::optional(from.type(v)));
      names.push_back(v == kNone ? "" : name(from.value(v).name));
    }
    const NodeId id =
        out_.graph.add_node(node.op, name(node.name), node.opset, node.attrs, std::move(inputs), types, names);
    out_.names.back()[node.name] = out_.graph.node(id).name;
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i] != kNone) become(from, node.outputs[i], out_.graph.node(id).outputs[i]);
    }
  }

  UnitedGraph out_;
  std::string label_;
  std::vector<ValueId> values_;  ///< by value of the part
  std::set<std::string> taken_;  ///< names in earlier parts
  std::set<std::string> outputs_;
};

}  // namespace

UnitedGraph unite(std::span<const LabelledGraph> parts) {
  Uniter uniter;
  for (const LabelledGraph& part : parts) uniter.add(part);
  return uniter.take();
}

}  // namespace kilter
