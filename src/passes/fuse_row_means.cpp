// Moves the first half of a mean over an image (global average pooling, squeeze and excitation) into the task of the
// depthwise convolution that computes the image. The task computes the mean of each row from registers.
//
//   group 1 { %a = Conv(%x, %w)                       group 1 { %a = Conv(%x, %w)
//             %b = Relu(%a) }                  =>               %b = Relu(%a)
//   group 2 { %m = ReduceMean(%b, axes 2,3) }                   %r = ReduceMean(%b, axes 3) }
//                                                     group 2 { %m = ReduceMean(%r, axes 2) }
//
// Each row is computed by one thread in a fixed order, so results are bit-identical for any number of threads.

#include <algorithm>

#include "graph/values.h"
#include "ops/support/builder.h"
#include "ops/support/reduction.h"
#include "passes/pass.h"
#include "schedule/emit.h"

namespace kilter {
namespace {

class RowMeanFuser {
 public:
  RowMeanFuser(Graph& graph, PassContext& context) : graph_(graph), context_(context) {}

  void run() {
    const std::vector<NodeId> order = graph_.order();
    for (const NodeId id : order) ++members_[graph_.node(id).group];
    for (const NodeId id : order) {
      const Node& node = graph_.node(id);
      if (node.op->family != Family::reduce || node.group != id) continue;
      if (auto refused = join(id)) context_.unfused.push_back(std::move(*refused));
    }
    graph_.sort();
  }

 private:
  /// Returns why a reduction stays apart from the task that computes its input. Returns nullopt if it joins, which
  /// counts as a rewrite, or if no task of several nodes could absorb it.
  std::optional<Unfused> join(NodeId id) {
    const Node& node = graph_.node(id);
    NodeId from = graph_.value(node.inputs[0]).producer;
    const bool changed = from != kNone && graph_.node(from).op->movement == Movement::relayout;
    if (changed) from = graph_.value(graph_.node(from).inputs[0]).producer;
    const int32_t group = from == kNone ? kNone : graph_.node(from).group;
    if (group == kNone) return std::nullopt;
    const Node& anchor = graph_.node(group);
    const auto no = [&](Unfused::Why why, std::string reason) {
      return Unfused{why, node.name, anchor.name, std::move(reason)};
    };
    if (changed) return no(Unfused::layout, "there is a layout change between them");
    if (!depthwise(anchor))
      return no(
          Unfused::form,
          "only tasks of depthwise convolutions can reduce their own results; this result is stored and read again");
    const std::vector<int64_t> axes = reduced_axes(view(graph_, node));
    const TensorType& x = graph_.type(node.inputs[0]);
    const bool rows = axes == std::vector<int64_t>{3} || axes == std::vector<int64_t>{2, 3};
    if (node.op->combiner != Combiner::mean || node.int_attr("keepdims", 1) == 0 || !rows || x.layout.block == 1 ||
        x.shape != graph_.type(anchor.outputs[0]).shape)
      return no(Unfused::form,
                "tasks of depthwise convolutions compute only means over the last axis or the last two, with "
                "keepdims=1, of blocked images");
    for (const Node* part : {&anchor, &node}) {
      if (context_.no_fuse.contains(part->name)) return no(Unfused::option, "--no-fuse " + part->name);
    }
    const auto own = context_.own.find(anchor.name);
    if (own != context_.own.end() && !own->second.empty() && !takes_rows(own->second))
      return no(Unfused::option, fmt::format("the schedule of '{}' is forced to {}", anchor.name, own->second));
    if (context_.own.contains(node.name)) return no(Unfused::option, "it has a schedule or threads of its own");
    const bool whole = axes.size() == 1 || x.shape[2] == 1;
    if (whole && !alone(id)) return no(Unfused::form, "the nodes after it run over fewer elements");
    if (!context_.take()) return no(Unfused::option, "--max-rewrites");
    whole ? take_in(id, group) : split(id, group);
    return std::nullopt;
  }

  /// Whether a convolution has constant filters and one input and one output channel per group.
  bool depthwise(const Node& node) const {
    if (node.op->family != Family::conv || constant_of(graph_, node.inputs[1]) == nullptr) return false;
    const Shape& w = graph_.type(node.inputs[1]).shape;
    return w[0] == node.int_attr("group", 1) && w[1] == 1;
  }

  static bool takes_rows(std::string_view schedule) {
    return schedule == "conv2d_depthwise" || schedule == "conv2d_then_depthwise";
  }

  /// Whether the node is the only one of its group.
  bool alone(NodeId id) const {
    const auto others = members_.find(id);
    return others == members_.end() || others->second <= 1;
  }

  /// Adds a mean to the group if its channels have one row each.
  void take_in(NodeId id, NodeId group) {
    set_axis(id, 3);
    graph_.change_node(id).group = group;
  }

  void split(NodeId id, NodeId group) {
    const std::string name = graph_.node(id).name;
    const ValueId x = graph_.node(id).inputs[0];
    TensorType rows = graph_.type(x);
    rows.shape[3] = 1;
    rows.layout.halo = {};
    const NodeId first = graph_.add_node(find_op("", "ReduceMean", kNewestOpset), name + ".rows", kNewestOpset,
                                         {{"keepdims", int64_t{1}}}, {x}, {rows}, {name + ".rows"});
    set_axis(first, 3);
    graph_.change_node(first).group = group;
    graph_.change_node(id).inputs[0] = graph_.node(first).outputs[0];
    set_axis(id, 2);
  }

  /// Sets the reduction's axis in its attribute if it has one, and otherwise in its second input.
  void set_axis(NodeId id, int64_t axis) {
    Node& node = graph_.change_node(id);
    if (node.has_attr("axes")) {
      node.attrs["axes"] = std::vector{axis};
      return;
    }
    const ValueId list = GraphBuilder(graph_).list(std::vector{axis}, node.name + ".axes");
    node.inputs.resize(2, kNone);
    node.inputs[1] = list;
  }

  Graph& graph_;
  PassContext& context_;
  std::map<int32_t, int64_t> members_;  ///< number of nodes by group, as it was before the pass
};

}  // namespace

void fuse_row_means(Graph& graph, PassContext& context) { RowMeanFuser(graph, context).run(); }

}  // namespace kilter
