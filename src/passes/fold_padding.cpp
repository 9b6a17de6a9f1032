// Folds the margins that a Pad adds to images into the padding of the convolution or pool that reads them.
//
//   Conv(Pad(x, p, 0), pads=q)                        = Conv(x, pads=p+q)
//   AveragePool(Pad(x, p, 0))                         = AveragePool(x, pads=p, count_include_pad=1)
//   MaxPool(Pad(x, p, -inf), pads=q)                  = MaxPool(x, pads=p+q)
//   MaxPool(Pad(x, p, 0), pads=q)                     = MaxPool(x, pads=p+q), if x is never below 0
//
// This holds only for non-negative margins of spatial axes. The sum of each margin and q must be smaller than the span
// of the kernel, so that no window lies entirely in the padding.

#include <algorithm>
#include <limits>

#include "ops/support/builder.h"
#include "ops/support/operands.h"
#include "ops/support/pad.h"
#include "ops/support/window.h"
#include "passes/match.h"
#include "passes/pass.h"

namespace kilter {
namespace {

class Folder {
 public:
  Folder(Graph& graph, PassContext& context) : graph_(graph), context_(context), b_(graph) {}

  void run() {
    for (const NodeId id : std::vector<NodeId>(graph_.order())) {
      const Node& node = graph_.node(id);
      const Node* pad = node.dead || node.inputs.empty() ? nullptr : made_by(graph_, node.inputs[0], "Pad");
      if (pad == nullptr || !known(view(graph_, *pad), 1)) continue;
      const ValueId to = folded(node, *pad);
      if (to == kNone) continue;
      graph_.replace_uses(node.outputs[0], to);
      graph_.erase(id);
    }
    graph_.sort();
    graph_.remove_dead();
  }

 private:
  ValueId folded(const Node& node, const Node& pad) {
    const bool conv = node.op->family == Family::conv, pool = node.op->family == Family::pool;
    const bool mean = pool && node.op->combiner == Combiner::mean, maximum = pool && node.op->combiner == Combiner::max;
    const bool indices = node.outputs.size() > 1 && node.outputs[1] != kNone;
    if ((!conv && !mean && !maximum) || indices || node.int_attr("ceil_mode", 0) != 0) return kNone;
    const Shape& padded = graph_.type(node.inputs[0]).shape;
    Window window = conv ? conv_window(node, padded, graph_.type(node.inputs[1]).shape) : pool_window(node, padded);
    if (mean && !counts_padding(node, window)) return kNone;
    if (!adds(maximum, pad) || !widen(window, margins_of(view(graph_, pad))) || !context_.take()) return kNone;
    Attrs attrs = conv ? window_attrs(window) : pool_attrs(node, window);
    if (conv) attrs["group"] = node.int_attr("group", 1);
    if (mean) attrs["count_include_pad"] = 1;
    std::vector<ValueId> inputs = node.inputs;
    inputs[0] = pad.inputs[0];
    GraphBuilder::Options options;
    options.name = node.name;
    options.opset = node.opset;
    return b_.add(node.op->name, inputs, attrs, options).front();
  }

  /// Whether the values that the Pad adds are those that this operator assumes for its own padding.
  bool adds(bool maximum, const Node& pad) const {
    const std::optional<double> value = constant_margin(view(graph_, pad));
    if (!value) return false;
    if (!maximum) return *value == 0;
    return *value == -std::numeric_limits<double>::infinity() || (*value == 0 && never_negative(pad.inputs[0]));
  }

  static bool counts_padding(const Node& node, const Window& window) {
    const auto none = [](const std::vector<int64_t>& pads) {
      return std::ranges::all_of(pads, [](auto p) { return p == 0; });
    };
    return node.int_attr("count_include_pad", 0) != 0 || (none(window.pads_begin) && none(window.pads_end));
  }

  bool never_negative(ValueId x) const {
    if (made_by(graph_, x, "Relu") != nullptr || made_by(graph_, x, "Sigmoid") != nullptr) return true;
    const Node* clip = made_by(graph_, x, "Clip");
    if (clip == nullptr) return false;
    const std::optional<double> least = clip->input(1) != kNone ? scalar_value(graph_, clip->inputs[1])
                                                                : std::optional<double>(clip->float_attr("min", -1));
    return least && *least >= 0;
  }

  /// Adds margins to a window's padding. Returns false if that is not possible; the window is then unusable.
  static bool widen(Window& window, const Margins& margins) {
    for (size_t d = 0; d < margins.before.size(); ++d) {
      const int64_t before = margins.before[d], after = margins.after[d];
      if (d < 2 ? before != 0 || after != 0 : before < 0 || after < 0) return false;
      if (d < 2) continue;
      const size_t axis = d - 2;
      window.pads_begin[axis] += before, window.pads_end[axis] += after;
      if (std::max(window.pads_begin[axis], window.pads_end[axis]) >= window.span(axis)) return false;
    }
    return true;
  }

  Graph& graph_;
  PassContext& context_;
  GraphBuilder b_;
};

}  // namespace

void fold_padding(Graph& graph, PassContext& context) { Folder(graph, context).run(); }

}  // namespace kilter
