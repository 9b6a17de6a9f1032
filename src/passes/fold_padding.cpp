// Folds the margins that a Pad adds to images into the padding of the convolution or pool that reads them.
//
// This is possible only for non-negative margins of spatial axes. Each margin and the window's own padding on that side
// together must be smaller than the span of the kernel, so that no window lies entirely in the padding.
//
// Then the taps of dilated convolutions that read only padding are removed. A 3x3 window with a dilation of 36 on an
// image of 33x33, for example, becomes a 1x1 window.

#include <algorithm>
#include <limits>

#include "ops/support/operands.h"
#include "ops/support/pad.h"
#include "ops/support/window.h"
#include "passes/match.h"
#include "passes/rewrite.h"

namespace kilter {
namespace {

class PaddingFolder : public RewritePass<PaddingFolder> {
 public:
  using RewritePass::RewritePass;

  static std::string_view pass() { return "fold_padding"; }
  static std::span<const RewriteRow<PaddingFolder>> rows();
  bool looks_at(const Node& node) const { return reads_pad(node) || is_op(node, "Conv"); }

  void run() {
    sweep(false);
    sweep(false, 1);
    finish();
  }

 private:
  bool reads_pad(const Node& node) const {
    const Node* pad = node.inputs.empty() ? nullptr : made_by(graph_, node.inputs[0], "Pad");
    return pad != nullptr && known(view(graph_, *pad), 1);
  }
  const Node& pad_of(const Node& node) const { return graph_.node(graph_.value(node.inputs[0]).producer); }
  const Shape& padded(const Node& node) const { return type(node.inputs[0]).shape; }

  Patch conv(const Node& node) {
    if (!reads_pad(node)) return {};
    Window window = conv_window(node, padded(node), type(node.inputs[1]).shape);
    if (const std::string_view why = widen(node, window, false); !why.empty()) return no(why);
    Attrs attrs = window_attrs(window);
    attrs["group"] = node.int_attr("group", 1);
    return without_pad(node, attrs);
  }
  Patch average_pool(const Node& node) {
    if (node.int_attr("ceil_mode", 0) != 0) return no("ceil_mode is set");
    Window window = pool_window(node, padded(node));
    if (!counts_padding(node, window)) return no("it does not count its own padding");
    if (const std::string_view why = widen(node, window, false); !why.empty()) return no(why);
    Attrs attrs = pool_attrs(node, window);
    attrs["count_include_pad"] = 1;
    return without_pad(node, attrs);
  }
  Patch max_pool(const Node& node) {
    if (node.outputs.size() > 1 && node.outputs[1] != kNone) return no("it returns indices");
    if (node.int_attr("ceil_mode", 0) != 0) return no("ceil_mode is set");
    Window window = pool_window(node, padded(node));
    if (const std::string_view why = widen(node, window, true); !why.empty()) return no(why);
    return without_pad(node, pool_attrs(node, window));
  }

  /// Removes the taps of a convolution that read only padding.
  Patch taps(const Node& node) {
    const Tensor* w = constant(node.inputs[1]);
    if (w == nullptr) return no("its filters are not constant");
    Window window = conv_window(node, type(node.inputs[0]).shape, w->shape());
    std::vector<int64_t> begins, ends, axes;
    bool all = true;
    for (size_t axis = 0; axis < window.rank(); ++axis) {
      const int64_t kernel = window.kernel[axis], last = window.out[axis] - 1;
      int64_t begin = 0, end = kernel;
      while (begin < kernel && window.source(axis, last, begin) < 0) ++begin;
      while (end > begin && window.source(axis, 0, end - 1) >= window.in[axis]) --end;
      if (begin == end) return no("every tap reads only padding");
      window.pads_begin[axis] -= begin * window.dilations[axis];
      window.pads_end[axis] -= (kernel - end) * window.dilations[axis];
      if (window.pads_begin[axis] < 0 || window.pads_end[axis] < 0)
        return no("its other taps do not read the first or the last pixels of the image");
      window.kernel[axis] = end - begin;
      all = all && window.kernel[axis] == kernel;
      begins.push_back(begin), ends.push_back(end), axes.push_back(static_cast<int64_t>(axis) + 2);
    }
    if (all) return no("every tap reads the image somewhere");
    b_.fold_limit = std::max(b_.fold_limit, w->elems());  // later passes need constant filters
    Node shrunk = node;
    shrunk.attrs = window_attrs(window);
    shrunk.attrs["group"] = node.int_attr("group", 1);
    const std::vector<ValueId> cut = {node.inputs[1], b_.list(begins), b_.list(ends), b_.list(axes)};
    shrunk.inputs[1] = b_.add("Slice", cut, {}, graph_.value(node.inputs[1]).name + ".read");
    return added(shrunk);
  }

  /// Adds a node like `node`, which is not in the graph.
  ValueId added(const Node& node) {
    GraphBuilder::Options options;
    options.name = node.name;
    options.opset = node.opset;
    return b_.add(node.op->name, node.inputs, node.attrs, options).front();
  }

  /// Adds the margins of the Pad to the padding of `window`. Returns why that is not possible, or ""; the window is
  /// then unusable.
  std::string_view widen(const Node& node, Window& window, bool maximum) const {
    if (!adds(maximum, pad_of(node))) return "the Pad adds values other than those of the operator's own padding";
    const Margins margins = margins_of(view(graph_, pad_of(node)));
    for (size_t d = 0; d < margins.before.size(); ++d) {
      const int64_t before = margins.before[d], after = margins.after[d];
      if (d < 2 && (before != 0 || after != 0)) return "the Pad adds images or channels";
      if (before < 0 || after < 0) return "the Pad crops";
      if (d < 2) continue;
      const size_t axis = d - 2;
      window.pads_begin[axis] += before, window.pads_end[axis] += after;
      if (std::max(window.pads_begin[axis], window.pads_end[axis]) >= window.span(axis))
        return "a window would lie entirely in the padding";
    }
    return "";
  }
  ValueId without_pad(const Node& node, const Attrs& attrs) {
    Node unpadded = node;
    unpadded.attrs = attrs;
    unpadded.inputs[0] = pad_of(node).inputs[0];
    return added(unpadded);
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
};

std::span<const RewriteRow<PaddingFolder>> PaddingFolder::rows() {
  static const std::vector<RewriteRow<PaddingFolder>> kRows = {
      {{"conv", "Conv(Pad(x, p, 0), pads=q) => Conv(x, pads=p+q)", {"Conv"}}, &PaddingFolder::conv},
      {{"average_pool", "AveragePool(Pad(x, p, 0)) => AveragePool(x, pads=p, count_include_pad=1)", {"AveragePool"}},
       &PaddingFolder::average_pool},
      {{"max_pool",
        "MaxPool(Pad(x, p, -inf), pads=q) => MaxPool(x, pads=p+q); also padding with 0 if x is never negative",
        {"MaxPool"}},
       &PaddingFolder::max_pool},
      {{"taps", "Conv(x, w) => Conv(x, Slice(w)), without taps that read only padding", {"Conv"}},
       &PaddingFolder::taps,
       1},
  };
  return kRows;
}

}  // namespace

std::vector<Rewrite> padding_rewrites() { return PaddingFolder::rewrites(); }
void fold_padding(Graph& graph, PassContext& context) { PaddingFolder(graph, context).run(); }

}  // namespace kilter
