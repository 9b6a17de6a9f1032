// Moves a multiplication by per-channel factors that precedes a 1x1 convolution (squeeze and excitation) into the
// convolution's task, which multiplies its weights instead of the image.
//
//   group 1 { %b = Mul(%x, %s) }            group 2 { %b = Mul(%x, %s)
//   group 2 { %c = Conv(%b, %w) }     =>              %c = Conv(%b, %w) }      %s: [1,C,1,1], computed at run time
//
// Only the convolution may read %b, and the image must be large enough to outweigh the cost of multiplying the weights.

#include <fmt/format.h>

#include <map>
#include <optional>

#include "graph/values.h"
#include "ops/op.h"
#include "passes/pass.h"

namespace kilter {
namespace {

/// Pixels needed per filter. Multiplying a weight costs one more read and write than the convolution alone; for each
/// element of the image, one read and one write are saved.
constexpr int64_t kPixelsForAFilter = 2;

class ScaleFuser {
 public:
  ScaleFuser(Graph& graph, PassContext& context) : graph_(graph), context_(context) {}

  void run() {
    for (NodeId id : graph_.order()) members_[graph_.node(id).group].push_back(id);
    for (NodeId id : graph_.order()) {
      const Node& conv = graph_.node(id);
      if (conv.op->family != Family::conv) continue;
      const NodeId scale = graph_.value(conv.inputs[0]).producer;
      if (scale == kNone || !scales(scale)) continue;
      std::optional<Unfused> refused = refusal(graph_.node(scale), id);
      std::erase_if(context_.unfused, [&](const Unfused& u) {
        return u.node == graph_.node(scale).name && (!refused || u.group == conv.name);
      });
      if (refused) {
        context_.unfused.push_back(std::move(*refused));
        continue;
      }
      graph_.change_node(scale).group = id;
    }
  }

 private:
  /// Whether a node, the only one in its group, multiplies an image by per-channel factors, both computed at run time.
  bool scales(NodeId id) const {
    const Node& node = graph_.node(id);
    if (node.op->family != Family::map || node.op->combiner != Combiner::product || node.group != id ||
        members_.at(id).size() != 1)
      return false;
    const Shape& image = graph_.type(node.outputs[0]).shape;
    if (image.size() != 4 || image[2] * image[3] == 1) return false;
    const auto like = [&](ValueId v, const Shape& shape) {
      return constant_of(graph_, v) == nullptr && graph_.type(v).shape == shape;
    };
    const Shape factors{image[0], image[1], 1, 1};
    const ValueId a = node.inputs[0], b = node.inputs[1];
    return (like(a, image) && like(b, factors)) || (like(b, image) && like(a, factors));
  }

  /// Returns why `scale` does not join the convolution's group; nullopt if it joins, which counts as a rewrite.
  std::optional<Unfused> refusal(const Node& scale, NodeId id) {
    const Node& conv = graph_.node(id);
    const auto no = [&](Unfused::Why why, std::string reason) {
      return Unfused{why, scale.name, conv.name, std::move(reason)};
    };
    for (const Node* node : {&conv, &scale}) {
      if (context_.no_fuse.contains(node->name)) return no(Unfused::option, "--no-fuse " + node->name);
    }
    if (context_.own.contains(scale.name)) return no(Unfused::option, "it has a schedule or threads of its own");
    if (const std::string fault = form_of(conv); !fault.empty()) return no(Unfused::form, fault);
    if (conv.group != id || members_.at(id).front() != id)
      return no(Unfused::form, fmt::format("'{}' runs in one kernel with another convolution", conv.name));
    if (const std::string fault = layout_of(scale, conv); !fault.empty()) return no(Unfused::layout, fault);
    if (graph_.is_output(scale.outputs[0]) || graph_.users(scale.outputs[0]).size() != 1)
      return no(Unfused::order, fmt::format("'{}' has other readers", graph_.value(scale.outputs[0]).name));
    const Shape &x = graph_.type(conv.inputs[0]).shape, &w = graph_.type(conv.inputs[1]).shape;
    if (x[2] * x[3] < kPixelsForAFilter * w[0]) {
      return no(Unfused::cycles,
                fmt::format("{} pixels are fewer than the {} that pay for multiplying the weights of {} filters",
                            x[2] * x[3], kPixelsForAFilter * w[0], w[0]));
    }
    if (!context_.take()) return no(Unfused::option, "--max-rewrites");
    return std::nullopt;
  }

  /// Returns the reason why a convolution cannot multiply its weights by factors of its input channels; empty if it
  /// can.
  std::string form_of(const Node& conv) const {
    const Shape &x = graph_.type(conv.inputs[0]).shape, &w = graph_.type(conv.inputs[1]).shape;
    if (const int64_t groups = conv.int_attr("group", 1); groups != 1)
      return fmt::format("'{}' has {} groups, expected 1", conv.name, groups);
    if (w[2] * w[3] != 1) return fmt::format("'{}' has kernels of {}x{}, expected 1x1", conv.name, w[2], w[3]);
    if (constant_of(graph_, conv.inputs[1]) == nullptr)
      return fmt::format("the weights of '{}' are not constant", conv.name);
    if (x[0] != 1) return fmt::format("{} images share the weights of '{}', expected 1", x[0], conv.name);
    return "";
  }

  /// Returns the reason why the layouts do not fit; empty if image and factors are blocked alike and there is no halo.
  std::string layout_of(const Node& scale, const Node& conv) const {
    const Layout& x = graph_.type(conv.inputs[0]).layout;
    if (x.block <= 1) return "its image is plain, expected blocks of channels";
    if (x.has_halo()) return fmt::format("'{}' reads its image with a halo", conv.name);
    for (ValueId v : scale.inputs) {
      if (graph_.type(v).layout.block != x.block)
        return fmt::format("'{}' is not in blocks of {} channels", graph_.value(v).name, x.block);
    }
    return "";
  }

  Graph& graph_;
  PassContext& context_;
  std::map<int32_t, std::vector<NodeId>> members_;  ///< of each group, in order
};

}  // namespace

void fuse_channel_scale(Graph& graph, PassContext& context) { ScaleFuser(graph, context).run(); }

}  // namespace kilter
