// Removes nodes that do nothing and merges movement operators. The equations name the rules.
//
//   Identity(x) = x        Reshape(Reshape(x)) = Reshape(x)      Transpose(Transpose(x)) = Transpose(x)
//   x * 1 = x              x + 0 = x                             Pow(x, 2) = x * x
//   Concat(a, Split(x), b) = Concat(a, x, b)                     where they run along one axis

#include <algorithm>
#include <optional>

#include "graph/values.h"
#include "ops/support/builder.h"
#include "passes/pass.h"

namespace kilter {
namespace {

class Simplifier {
 public:
  Simplifier(Graph& graph, PassContext& context) : graph_(graph), context_(context), b_(graph) {}

  void run() {
    constexpr int kMostSweeps = 32;  // each goes through whole chains: only contrived graphs need more
    bool changed = true;
    for (int sweep = 0; changed && sweep < kMostSweeps; ++sweep) {
      changed = false;
      for (NodeId id : std::vector<NodeId>(graph_.order())) {
        const Node& node = graph_.node(id);
        if (node.dead || node.op->domain != "" || node.outputs[0] == kNone) continue;
        const std::optional<ValueId> to = rewrite(node);
        if (!to || *to == node.outputs[0]) continue;
        graph_.replace_uses(node.outputs[0], *to);
        graph_.erase(id);
        changed = true;
      }
      graph_.sort();
      graph_.remove_dead();
    }
  }

 private:
  const TensorType& type(ValueId v) const { return graph_.type(v); }
  const Node* producer(ValueId v) const {
    const NodeId id = graph_.value(v).producer;
    return id == kNone ? nullptr : &graph_.node(id);
  }

  std::optional<ValueId> rewrite(const Node& node) {
    if (node.outputs.size() > 1 &&
        std::any_of(node.outputs.begin() + 1, node.outputs.end(), [](ValueId v) { return v != kNone; })) {
      return std::nullopt;
    }
    if (auto same = nothing(node)) {
      // A network output keeps its own node if the source is an input or another output.
      const bool keeps =
          graph_.is_output(node.outputs[0]) && (graph_.value(*same).producer == kNone || graph_.is_output(*same));
      return !keeps && context_.take() ? same : std::nullopt;
    }
    if (node.op->family == Family::reshape) return reshape_of_reshape(node);
    if (node.op->name == "Transpose") return transpose_of_transpose(node);
    if (node.op->name == "Pow") return power(node);
    if (node.op->name == "Concat") return concat_of_parts(node);
    return std::nullopt;
  }

  bool is_scalar(ValueId v, double value) const {
    const Tensor* c = constant_of(graph_, v);
    return c != nullptr && c->elems() == 1 && c->dtype() != DType::string && c->as_double(0) == value;
  }

  /// The value that the node's output equals, if the node does nothing.
  std::optional<ValueId> nothing(const Node& node) const {
    if (node.inputs.empty() || node.inputs[0] == kNone) return std::nullopt;
    const ValueId x = node.inputs[0];
    const bool same = type(x) == type(node.outputs[0]);
    const std::string_view op = node.op->name;
    if (!same && node.inputs.size() < 2) return std::nullopt;
    if (node.op->family == Family::reshape && same) return x;
    if (same && (op == "Cast" || op == "CastLike" || op == "Expand" || op == "Tile" || op == "Dropout")) return x;
    if (same && op == "Slice" && !reverses(node)) return x;
    if (same && op == "Concat" && node.inputs.size() == 1) return x;
    if (same && op == "Transpose" && keeps_order(node)) return x;
    if (op == "Mul" || op == "Add") {
      const double neutral = op == "Mul" ? 1 : 0;
      if (same && is_scalar(node.inputs[1], neutral)) return x;
      if (type(node.inputs[1]) == type(node.outputs[0]) && is_scalar(x, neutral)) return node.inputs[1];
    }
    if (same && op == "Div" && is_scalar(node.inputs[1], 1)) return x;
    if (same && op == "Sub" && is_scalar(node.inputs[1], 0)) return x;
    return std::nullopt;
  }

  /// Whether a Slice may reverse an axis, although it takes all of it.
  bool reverses(const Node& node) const {
    if (node.input(4) == kNone) return false;
    const Tensor* steps = constant_of(graph_, node.input(4));
    if (steps == nullptr) return true;
    const std::vector<int64_t> all = steps->ints();
    return std::any_of(all.begin(), all.end(), [](int64_t step) { return step < 0; });
  }

  bool keeps_order(const Node& node) const {
    const auto perm = node.ints_attr("perm");
    if (perm.empty()) return type(node.outputs[0]).shape.size() <= 1;
    return std::is_sorted(perm.begin(), perm.end());
  }

  std::optional<ValueId> reshape_of_reshape(const Node& node) {
    const Node* before = producer(node.inputs[0]);
    if (before == nullptr || before->op->family != Family::reshape || type(node.outputs[0]).dtype == DType::string)
      return std::nullopt;
    if (!context_.take()) return std::nullopt;
    const Shape& shape = type(node.outputs[0]).shape;
    return b_.add("Reshape", {before->inputs[0], b_.list(shape)}, {{"allowzero", int64_t{1}}}, node.name);
  }

  std::vector<int64_t> perm_of(const Node& node) const {
    auto perm = node.ints_attr("perm");
    if (perm.empty()) {
      for (auto d = static_cast<int64_t>(type(node.inputs[0]).shape.size()); d-- > 0;) perm.push_back(d);
    }
    return perm;
  }

  std::optional<ValueId> transpose_of_transpose(const Node& node) {
    const Node* before = producer(node.inputs[0]);
    if (before == nullptr || before->op->name != "Transpose" || !context_.take()) return std::nullopt;
    const auto outer = perm_of(node), inner = perm_of(*before);
    std::vector<int64_t> both;
    for (int64_t d : outer) both.push_back(inner[static_cast<size_t>(d)]);
    return b_.add("Transpose", {before->inputs[0]}, {{"perm", both}}, node.name);
  }

  /// Whether the outputs of a Split cover its whole input.
  bool makes_all(const Node& split, int64_t axis) const {
    const auto at = static_cast<size_t>(axis);
    int64_t made = 0;
    for (const ValueId part : split.outputs) made += part == kNone ? 0 : type(part).shape[at];
    return made == type(split.inputs[0]).shape[at];
  }

  /// Replaces all parts of a Split, adjacent and along its axis, by the Split's input.
  std::optional<ValueId> concat_of_parts(const Node& node) {
    const auto rank = static_cast<int64_t>(type(node.outputs[0]).shape.size());
    const int64_t axis = normal_axis(node, node.int_attr("axis", 1), rank);
    std::vector<ValueId> joined;
    for (size_t i = 0; i < node.inputs.size();) {
      const Node* split = producer(node.inputs[i]);
      const bool along = split != nullptr && split->op->name == "Split" && split->op->domain.empty() &&
                         normal_axis(*split, split->int_attr("axis", 0), rank) == axis;
      const size_t count = along ? split->outputs.size() : 0;
      const bool whole =
          along && makes_all(*split, axis) && i + count <= node.inputs.size() &&
          std::equal(split->outputs.begin(), split->outputs.end(), node.inputs.begin() + static_cast<int64_t>(i));
      joined.push_back(whole ? split->inputs[0] : node.inputs[i]);
      i += whole ? count : 1;
    }
    if (joined.size() == node.inputs.size() || !context_.take()) return std::nullopt;
    return b_.add("Concat", joined, {{"axis", axis}}, node.name);
  }

  std::optional<ValueId> power(const Node& node) {
    const ValueId x = node.inputs[0];
    if (type(x) != type(node.outputs[0]) || !is_float(type(x).dtype)) return std::nullopt;
    if (is_scalar(node.inputs[1], 2) && context_.take()) return b_.add("Mul", {x, x}, {}, node.name);
    return std::nullopt;
  }

  Graph& graph_;
  PassContext& context_;
  GraphBuilder b_;
};

}  // namespace

void simplify(Graph& graph, PassContext& context) { Simplifier(graph, context).run(); }

}  // namespace kilter
