// Fuses element-wise nodes into the node that computes their input, so that intermediate values stay in registers.
//
//   %a = Conv(%x, %w)              group 1 { %a = Conv(%x, %w)
//   %b = Add(%a, %r)        =>               %b = Add(%a, %r)
//   %c = Relu(%b)                            %c = Relu(%b) }
//
// A node joins a group if it runs over the same elements in the same layout and no operand from outside the group
// depends on the group. Values that nodes outside also read are stored as further outputs.

#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "graph/values.h"
#include "ops/op.h"
#include "passes/pass.h"
#include "schedule/emit.h"

namespace kilter {
namespace {

constexpr size_t kMaxNodes = 24;     ///< per group: keeps live values in registers and compile times short
constexpr size_t kMaxOperands = 64;  ///< that a group reads from outside: each is a pointer, and may occupy a register
constexpr int kMaxLooked = 512;      ///< nodes searched between a group and one that joins it; keeps the pass linear

class Fuser {
 public:
  Fuser(Graph& graph, PassContext& context) : graph_(graph), context_(context) {}

  void run() {
    position_.resize(graph_.node_count(), 0);
    looked_at_.resize(graph_.node_count(), 0);
    late_.resize(graph_.node_count(), kNotYet);
    for (size_t i = 0; i < graph_.order().size(); ++i)
      position_[static_cast<size_t>(graph_.order()[i])] = static_cast<int64_t>(i);
    for (NodeId id : graph_.order()) {
      const Node& node = graph_.node(id);
      if (node.group != kNone) continue;
      if (node.outputs[0] != kNone && anchors(node)) grow(id);
      settle(id);
    }
    report();
    report_prologues();
  }

 private:
  bool anchors(const Node& node) const {
    switch (node.op->family) {
      case Family::reshape:
      case Family::movement:
        return false;
      case Family::map:
        return has_loop_form(graph_, node);
      case Family::reference:
      case Family::gather:
      case Family::scatter:
        return false;
      default:
        return node.outputs.size() == 1 ||
               std::all_of(node.outputs.begin() + 1, node.outputs.end(), [](ValueId v) { return v == kNone; });
    }
  }

  void grow(NodeId anchor) {
    graph_.change_node(anchor).group = anchor;
    std::vector<NodeId>& group = members_[anchor];
    group = {anchor};
    operands_.clear(), made_.clear();
    note_operands(graph_.node(anchor));
    for (size_t i = 0; i < group.size(); ++i) {
      for (NodeId user : graph_.users(graph_.node(group[i]).outputs[0])) {
        const Node& node = graph_.node(user);
        if (node.group != kNone || node.op->family != Family::map || node.op->movement == Movement::relayout) continue;
        if (auto refused = refusal(node, anchor, group)) {
          const auto [it, fresh] = left_out_.try_emplace(user, *refused);
          if (!fresh && it->second.why == Unfused::shape) it->second = std::move(*refused);
          continue;
        }
        graph_.change_node(user).group = anchor;
        group.push_back(user);
        note_operands(node);
      }
    }
  }

  /// The nodes that run as one unit with a node: its group, or itself.
  std::vector<NodeId> unit(NodeId id) const {
    const int32_t group = graph_.node(id).group;
    return group == kNone ? std::vector<NodeId>{id} : members_.at(group);
  }

  /// Sets `late_` of a unit that will not grow, and raises it in the units before it that read its results.
  void settle(NodeId id) {
    const std::vector<NodeId> nodes = unit(id);
    int64_t late = 0;
    for (NodeId mate : nodes) {
      late = std::max(late, position_[static_cast<size_t>(mate)]);
      for (ValueId in : graph_.node(mate).inputs) {
        const NodeId producer = in == kNone ? kNone : graph_.value(in).producer;
        if (producer != kNone) late = std::max(late, late_[static_cast<size_t>(producer)]);
      }
    }
    for (NodeId mate : nodes) late_[static_cast<size_t>(mate)] = late;
    std::vector<NodeId> open = nodes;
    while (!open.empty()) {
      const NodeId from = open.back();
      open.pop_back();
      for (ValueId out : graph_.node(from).outputs) {
        if (out == kNone) continue;
        for (NodeId user : graph_.users(out)) {
          const int64_t known = late_[static_cast<size_t>(user)];
          if (known == kNotYet || known >= late) continue;
          for (NodeId mate : unit(user)) late_[static_cast<size_t>(mate)] = late, open.push_back(mate);
        }
      }
    }
  }

  /// Records the values that a node of the current group reads from outside, and those that it computes.
  void note_operands(const Node& node) {
    std::ranges::copy_if(node.inputs, std::inserter(operands_, operands_.end()),
                         [&](ValueId v) { return !made_.contains(v); });
    made_.insert(node.outputs.begin(), node.outputs.end());
  }

  /// Returns why `node` does not join the group, with what was expected and found; nullopt if it joins, which counts as
  /// a rewrite.
  std::optional<Unfused> refusal(const Node& node, NodeId anchor, const std::vector<NodeId>& group) {
    const Node& into = graph_.node(anchor);
    const TensorType& like = graph_.type(into.outputs[0]);
    const auto no = [&](Unfused::Why why, std::string reason) {
      return Unfused{why, node.name, into.name, std::move(reason)};
    };
    if (context_.no_fuse.contains(into.name)) return no(Unfused::option, "--no-fuse " + into.name);
    if (node.outputs.size() != 1 || !has_loop_form(graph_, node))
      return no(Unfused::form, fmt::format("{} of these types has no loop form", node.op->name));
    const TensorType& out = graph_.type(node.outputs[0]);
    if (out.shape != like.shape) {
      return no(Unfused::shape, fmt::format("its output has shape [{}], that of '{}' has [{}]",
                                            fmt::join(out.shape, ","), into.name, fmt::join(like.shape, ",")));
    }
    if (out.layout.block != like.layout.block || mixes_layouts(node, like)) {
      return no(Unfused::layout, fmt::format("it mixes layouts: its output is {}, that of '{}' is {}", layout_text(out),
                                             into.name, layout_text(like)));
    }
    if (group.size() >= kMaxNodes)
      return no(Unfused::full,
                fmt::format("the group of '{}' already has {} nodes, the maximum", into.name, kMaxNodes));
    if (operands_.size() + node.inputs.size() > kMaxOperands)
      return no(Unfused::full, fmt::format("with it, the group of '{}' would have more than {} operands, the maximum",
                                           into.name, kMaxOperands));
    if (!leads_nowhere_else(node, group) && !independent(node, group))
      return no(Unfused::order, fmt::format("it also reads a value computed from the result of '{}'", into.name));
    if (!context_.take()) return no(Unfused::option, "--max-rewrites");
    return std::nullopt;
  }

  static std::string layout_text(const TensorType& type) {
    return type.layout.block > 1 ? fmt::format("c{}", type.layout.block) : "plain";
  }

  /// A change of layout at the edge of a group runs over lanes, which blocked groups cannot absorb.
  bool mixes_layouts(const Node& node, const TensorType& like) const {
    for (ValueId in : node.inputs) {
      if (in == kNone || constant_of(graph_, in) != nullptr) continue;
      const TensorType& t = graph_.type(in);
      if (t.layout.block != like.layout.block && like.layout.block > 1 && t.shape.size() > 1 && t.shape[1] > 1)
        return true;
    }
    return false;
  }

  /// Reports nodes that were refused and did not join another group.
  void report() {
    for (auto& [id, refused] : left_out_) {
      const int32_t group = graph_.node(id).group;
      if (group == kNone || group == id) context_.unfused.push_back(std::move(refused));
    }
  }

  /// Reports element-wise nodes before convolutions and products: no template computes them while loading operands.
  void report_prologues() {
    for (NodeId id : graph_.order()) {
      const Node& node = graph_.node(id);
      const NodeId first = node.group;
      if (first == kNone || graph_.node(first).op->family != Family::map) continue;
      for (NodeId user : graph_.users(node.outputs[0])) {
        const Node& reader = graph_.node(user);
        if (reader.op->family != Family::conv && !is_product(reader.op->family)) continue;
        context_.unfused.push_back({Unfused::cycles, graph_.node(first).name, reader.name,
                                    "no template computes it while loading operands: it would be computed again for "
                                    "each block of filters or columns, which costs as much as it saves"});
      }
    }
  }

  /// Whether each value that the group computes has exactly one reader, which is `node` or in the group: then nothing
  /// outside depends on the group. Fast for most nodes; false is inconclusive.
  bool leads_nowhere_else(const Node& node, const std::vector<NodeId>& group) const {
    return std::ranges::all_of(group, [&](NodeId id) {
      return std::ranges::all_of(graph_.node(id).outputs, [&](ValueId v) {
        if (v == kNone) return true;
        const NodeId user = graph_.only_user(v);
        return user != kNone && (&graph_.node(user) == &node || std::ranges::find(group, user) != group.end());
      });
    });
  }

  /// Returns whether no operand from outside the group depends on the group. Returns false if this is not settled after
  /// visiting kMaxLooked nodes.
  bool independent(const Node& node, const std::vector<NodeId>& group) {
    int64_t first = INT64_MAX;
    for (NodeId id : group) first = std::min(first, position_[static_cast<size_t>(id)]);
    ++look_;
    int left = kMaxLooked;
    std::vector<NodeId> open;
    const auto push = [&](ValueId v) {
      if (v == kNone) return;
      const NodeId producer = graph_.value(v).producer;
      // A producer before the group may run in a unit that waits for a node after the group's first.
      const auto at = static_cast<size_t>(producer);
      if (producer != kNone && std::max(position_[at], late_[at]) >= first &&
          std::exchange(looked_at_[at], look_) != look_)
        open.push_back(producer);
    };
    const auto inside = [&](NodeId id) { return std::find(group.begin(), group.end(), id) != group.end(); };
    for (ValueId in : node.inputs) {
      if (in == kNone) continue;
      const NodeId producer = graph_.value(in).producer;
      if (producer == kNone || inside(producer)) continue;
      push(in);
    }
    while (!open.empty()) {
      const NodeId id = open.back();
      open.pop_back();
      if (inside(id) || --left < 0) return false;
      const int32_t other = graph_.node(id).group;
      for (ValueId in : graph_.node(id).inputs) push(in);
      if (other == kNone) continue;
      for (NodeId mate : members_.at(other)) {  // a group runs as one unit, so everything that it reads must come first
        for (ValueId in : graph_.node(mate).inputs) push(in);
      }
    }
    return true;
  }

  Graph& graph_;
  PassContext& context_;
  std::vector<int64_t> position_;
  static constexpr int64_t kNotYet = -1;
  std::vector<int64_t> late_;       ///< by node: the last position that its unit waits for; kNotYet before settle()
  std::vector<int64_t> looked_at_;  ///< by node: the last search that visited it
  int64_t look_ = 0;
  std::set<ValueId> operands_, made_;  ///< of the current group
  std::map<NodeId, std::vector<NodeId>> members_;
  std::map<NodeId, Unfused> left_out_;  ///< each node's first refusal; other reasons replace a refusal for its shape
};

}  // namespace

void fuse(Graph& graph, PassContext& context) { Fuser(graph, context).run(); }

}  // namespace kilter
