// Takes the multiplication by one factor a channel before a 1x1 convolution (squeeze and excitation) into the task of
// the convolution, which multiplies its weights instead of the image.
//
//   group 1 { %b = Mul(%x, %s) }            group 2 { %b = Mul(%x, %s)
//   group 2 { %c = Conv(%b, %w) }     =>              %c = Conv(%b, %w) }      %s: [1,C,1,1], computed at run time
//
// Only the convolution may read %b, and the image must be larger than what the weights cost to multiply.

#include <algorithm>
#include <map>

#include "ops/op.h"
#include "passes/pass.h"

namespace kilter {
namespace {

/// Multiplying a weight reads and writes it, beside reading it in the convolution; it saves reading and writing an
/// element of the image.
constexpr int64_t kPixelsForAFilter = 2;

class ScaleFuser {
 public:
  ScaleFuser(Graph& graph, PassContext& context) : graph_(graph), read_(graph), context_(context) {}

  void run() {
    for (NodeId id : read_.order()) ++members_[read_.node(id).group];
    std::map<int32_t, NodeId> first;
    for (NodeId id : read_.order()) first.emplace(read_.node(id).group, id);
    for (NodeId id : read_.order()) {
      const Node& conv = read_.node(id);
      if (conv.group != id || first.at(conv.group) != id || !takes(conv)) continue;
      const NodeId scale = read_.value(conv.inputs[0]).producer;
      if (scale == kNone || !scales(read_.node(scale), scale, conv)) continue;
      if (context_.take()) graph_.node(scale).group = id;
    }
  }

 private:
  bool apart(const Node& node) const { return context_.no_fuse.contains(node.name); }

  /// A 1x1 convolution of one blocked image, large beside its filters.
  bool takes(const Node& conv) const {
    if (conv.op->family != Family::conv || conv.int_attr("group", 1) != 1 || apart(conv)) return false;
    const TensorType &x = read_.type(conv.inputs[0]), &w = read_.type(conv.inputs[1]);
    return x.shape.size() == 4 && x.shape[0] == 1 && x.layout.block > 1 && !x.layout.has_halo() &&
           read_.value(conv.inputs[1]).constant.has_value() && w.shape[2] * w.shape[3] == 1 &&
           kPixelsForAFilter * w.shape[0] <= x.shape[2] * x.shape[3];
  }

  /// Whether `node` multiplies an image by a factor a channel for `conv` alone, in a group of its own.
  bool scales(const Node& node, NodeId id, const Node& conv) const {
    if (node.op->name != "Mul" || node.group != id || members_.at(id) != 1 || apart(node)) return false;
    if (context_.own.contains(node.name) || read_.is_output(node.outputs[0])) return false;
    const auto users = read_.users(node.outputs[0]);
    if (users.size() != 1 || &read_.node(users[0]) != &conv) return false;
    const Shape& image = read_.type(node.outputs[0]).shape;
    const auto like = [&](ValueId v, const Shape& shape) {
      const TensorType& t = read_.type(v);
      return !read_.value(v).constant && t.shape == shape && t.layout.block == read_.type(conv.inputs[0]).layout.block;
    };
    const Shape factors{1, image[1], 1, 1};
    const ValueId a = node.inputs[0], b = node.inputs[1];
    return (like(a, image) && like(b, factors)) || (like(b, image) && like(a, factors));
  }

  Graph& graph_;
  const Graph& read_;
  PassContext& context_;
  std::map<int32_t, int64_t> members_;  ///< of each group: how many
};

}  // namespace

void fuse_channel_scale(Graph& graph, PassContext& context) { ScaleFuser(graph, context).run(); }

}  // namespace kilter
