// Folds per-channel constants that follow a convolution into its weights and bias.
//
//   %a = Conv(%x, W, B)           %c = Conv(%x, W * s, B * s + t)
//   %b = Mul(%a, s)        =>
//   %c = Add(%b, t)

#include <algorithm>
#include <cmath>
#include <optional>

#include "graph/values.h"
#include "passes/match.h"
#include "passes/pass.h"

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

std::optional<Arithmetic> arithmetic(const Node& node) {
  for (const bool adds : {false, true}) {
    if (is_op(node, adds ? "Add" : "Mul")) return Arithmetic{adds, false};
    if (is_op(node, adds ? "Sub" : "Div")) return Arithmetic{adds, true};
  }
  return std::nullopt;
}

class Folder {
 public:
  Folder(Graph& graph, PassContext& context) : graph_(graph), context_(context) {}

  void run() {
    graph_.remove_dead();  // so that only live users count
    for (NodeId id : std::vector<NodeId>(graph_.order())) {
      while (!graph_.node(id).dead && fold_user(id)) {
      }
    }
    graph_.remove_dead();
  }

 private:
  bool fold_user(NodeId id) {
    const Node& conv = graph_.node(id);
    const bool transposed = conv.op->family == Family::conv_transpose;
    if (conv.op->family != Family::conv && !transposed) return false;
    if (transposed && conv.int_attr("group", 1) != 1) return false;
    const ValueId out = conv.outputs[0];
    if (graph_.type(out).dtype != DType::f32 || graph_.is_output(out)) return false;
    const auto users = graph_.users(out);
    if (users.size() != 1 || constant_of(graph_, conv.inputs[1]) == nullptr) return false;
    if (conv.input(2) != kNone && constant_of(graph_, conv.input(2)) == nullptr) return false;
    const Node& user = graph_.node(users[0]);
    const std::optional<Arithmetic> with = arithmetic(user);
    const bool first = user.inputs[0] == out;
    if (!with || (with->inverse && !first)) return false;
    const ValueId other = user.inputs[first ? 1 : 0];
    const Tensor* by = constant_of(graph_, other);
    if (by == nullptr || !same_elements(graph_.type(user.outputs[0]), graph_.type(out))) return false;
    const Shape& shape = graph_.type(out).shape;
    auto values = per_channel(*by, shape[1], shape.size());
    if (!values || values->empty()) return false;
    for (float& value : *values) value = with->operand(value);
    if (!finite(*values) || !context_.take()) return false;
    apply(id, with->adds, *values, transposed);
    const std::string name = graph_.value(user.outputs[0]).name;
    graph_.replace_uses(user.outputs[0], out);
    graph_.erase(users[0]);
    graph_.rename(out, name);
    return true;
  }

  /// An infinite factor would be multiplied by zeros inside the sum.
  static bool finite(const std::vector<float>& values) {
    return std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); });
  }

  /// Adds to the bias, or multiplies weights and bias.
  void apply(NodeId id, bool adds, const std::vector<float>& values, bool transposed) {
    const auto channels = static_cast<int64_t>(values.size());
    const Node conv = graph_.node(id);
    const Tensor* own = constant_of(graph_, conv.input(2));
    Tensor bias = own != nullptr ? own->clone() : Tensor(DType::f32, {channels});
    float* b = bias.data<float>();
    std::vector<ValueId> inputs = conv.inputs;
    if (adds) {
      for (int64_t c = 0; c < channels; ++c) b[c] += values[static_cast<size_t>(c)];
    } else {
      for (int64_t c = 0; c < channels; ++c) b[c] *= values[static_cast<size_t>(c)];
      Tensor w = constant_of(graph_, conv.inputs[1])->clone();
      const int64_t outer = transposed ? w.shape()[0] : 1;
      const int64_t inner = w.elems() / (outer * channels);
      for (int64_t o = 0; o < outer; ++o) {
        for (int64_t c = 0; c < channels; ++c) {
          float* at = w.data<float>() + (o * channels + c) * inner;
          for (int64_t i = 0; i < inner; ++i) at[i] *= values[static_cast<size_t>(c)];
        }
      }
      inputs[1] = graph_.add_constant(graph_.fresh_name(graph_.value(inputs[1]).name), std::move(w));
    }
    inputs.resize(3, kNone);
    inputs[2] = graph_.add_constant(graph_.fresh_name(conv.name + ".bias"), std::move(bias));
    graph_.change_node(id).inputs = inputs;
  }

  Graph& graph_;
  PassContext& context_;
};

}  // namespace

void fold_batch_norm(Graph& graph, PassContext& context) { Folder(graph, context).run(); }

}  // namespace kilter
