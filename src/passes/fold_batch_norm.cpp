// Folds per-channel constants that follow a convolution into its weights and bias.

#include <algorithm>
#include <cmath>
#include <optional>

#include "passes/constant_memo.h"
#include "passes/match.h"
#include "passes/rewrite.h"

namespace kilter {
namespace {

/// One factor or shift per channel, for a constant of any shape; nullopt if it varies along another dimension.
std::optional<std::vector<float>> per_channel(const Tensor& t, int64_t channels, size_t rank) {
  if (t.dtype() != DType::f32) return std::nullopt;
  std::vector<float> values(static_cast<size_t>(channels));
  const bool one = t.elems() == 1 && t.shape().size() <= rank;
  const size_t own = t.shape().size();
  const bool lies_on_channels =
      own + 1 >= rank && own <= rank && t.elems() == channels && t.shape()[own + 1 - rank] == channels;
  if (!one && !lies_on_channels) return std::nullopt;
  for (int64_t c = 0; c < channels; ++c) values[static_cast<size_t>(c)] = t.data<float>()[one ? 0 : c];
  return values;
}

/// The arithmetic after the convolution: a factor or a summand per channel, or the inverse of one.
struct Arithmetic {
  bool adds = false;
  bool inverse = false;  ///< it subtracts or divides

  float operand(float value) const { return !inverse ? value : adds ? -value : 1 / value; }
};

class ChannelFolder : public RewritePass<ChannelFolder> {
 public:
  using RewritePass::RewritePass;

  static std::string_view pass() { return "fold_batch_norm"; }
  static std::span<const RewriteRow<ChannelFolder>> rows();
  static bool looks_at(const Node&) { return true; }

  void run() {
    graph_.remove_dead();  // so that only live users count
    sweep(true);
    graph_.remove_dead();
  }

 private:
  Patch factor(const Node& node) { return fold(node, {false, is_op(node, "Div")}); }
  Patch summand(const Node& node) { return fold(node, {true, is_op(node, "Sub")}); }

  Patch fold(const Node& node, const Arithmetic& with) {
    for (const size_t i : {0U, 1U}) {
      const ValueId out = node.inputs[i];
      if (i > 0 && with.inverse) break;
      if (!foldable(out)) continue;
      if (!same_elements(type(node.outputs[0]), type(out))) return no("it broadcasts the result of the convolution");
      const Tensor* by = constant(node.inputs[1 - i]);
      const Shape& shape = type(out).shape;
      auto values = by == nullptr ? std::nullopt : per_channel(*by, shape[1], shape.size());
      if (!values || values->empty()) return no("the other operand is not a constant for each channel");
      for (float& value : *values) value = with.operand(value);
      if (!finite(*values)) return no("a factor or summand is not finite");
      apply(graph_.value(out).producer, with.adds, *values);
      return out;
    }
    return no("no operand is a convolution with constant weights that only this node reads");
  }

  /// Whether `v` is the result of a convolution with constant weights, and only one node reads it.
  bool foldable(ValueId v) const {
    if (v == kNone || graph_.value(v).producer == kNone || !f32(v) || !read_once(graph_, v)) return false;
    const Node& conv = graph_.node(graph_.value(v).producer);
    const bool transposed = conv.op->family == Family::conv_transpose;
    if (conv.op->family != Family::conv && (!transposed || conv.int_attr("group", 1) != 1)) return false;
    return constant(conv.inputs[1]) != nullptr && (conv.input(2) == kNone || constant(conv.input(2)) != nullptr);
  }

  /// An infinite factor would be multiplied by zeros inside the sum.
  static bool finite(const std::vector<float>& values) {
    return std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); });
  }

  /// Adds to the bias, or multiplies weights and bias.
  void apply(NodeId id, bool adds, const std::vector<float>& values) {
    const Node conv = graph_.node(id);
    const bool transposed = conv.op->family == Family::conv_transpose;
    const Tensor* own = constant_of(graph_, conv.input(2));
    const Tensor bias = own != nullptr ? *own : Tensor();
    std::vector<ValueId> inputs = conv.inputs;
    inputs.resize(3, kNone);
    if (!adds) {
      const Tensor weights = *constant_of(graph_, conv.inputs[1]);
      const Tensor made = kept(transposed ? "scale columns" : "scale rows", values, weights,
                               [&] { return scaled(weights, transposed, values); });
      inputs[1] = graph_.add_constant(graph_.fresh_name(graph_.value(inputs[1]).name), made);
    }
    const Tensor made = kept(adds ? "shift" : "scale", values, bias, [&] { return changed(bias, adds, values); });
    inputs[2] = graph_.add_constant(graph_.fresh_name(conv.name + ".bias"), made);
    graph_.change_node(id).inputs = inputs;
  }

  /// Returns the result of `make`, which computes with the values and a constant.
  template <class Make>
  Tensor kept(const std::string& what, const std::vector<float>& values, const Tensor& constant, Make&& make) {
    if (context_.memo == nullptr) return make();
    const std::string bytes(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
    return context_.memo->get(what + ":" + bytes, {&constant, 1}, [&] { return std::vector{make()}; }).front();
  }

  /// `bias`: undefined for zeros.
  static Tensor changed(const Tensor& bias, bool adds, const std::vector<float>& values) {
    Tensor out = bias.defined() ? bias.clone() : Tensor(DType::f32, {std::ssize(values)});
    float* b = out.data<float>();
    for (size_t c = 0; c < values.size(); ++c) b[c] = adds ? b[c] + values[c] : b[c] * values[c];
    return out;
  }

  static Tensor scaled(const Tensor& weights, bool transposed, const std::vector<float>& values) {
    Tensor w = weights.clone();
    const auto channels = std::ssize(values);
    const int64_t outer = transposed ? w.shape()[0] : 1;
    const int64_t inner = w.elems() / (outer * channels);
    for (int64_t o = 0; o < outer; ++o) {
      for (int64_t c = 0; c < channels; ++c) {
        float* at = w.data<float>() + (o * channels + c) * inner;
        for (int64_t i = 0; i < inner; ++i) at[i] *= values[static_cast<size_t>(c)];
      }
    }
    return w;
  }
};

std::span<const RewriteRow<ChannelFolder>> ChannelFolder::rows() {
  static const std::vector<RewriteRow<ChannelFolder>> kRows = {
      {{"factor",
        "Mul(Conv(x, w, b), s) => Conv(x, w s, b s), s by channel; Div and ConvTranspose likewise",
        {"Mul", "Div"}},
       &ChannelFolder::factor},
      {{"summand",
        "Add(Conv(x, w, b), t) => Conv(x, w, b + t), t by channel; Sub and ConvTranspose likewise",
        {"Add", "Sub"}},
       &ChannelFolder::summand},
  };
  return kRows;
}

}  // namespace

std::vector<Rewrite> batch_norm_rewrites() { return ChannelFolder::rewrites(); }
void fold_batch_norm(Graph& graph, PassContext& context) { ChannelFolder(graph, context).run(); }

}  // namespace kilter
