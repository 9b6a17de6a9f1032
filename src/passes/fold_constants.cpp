// Evaluates nodes with constant operands by their reference kernels, within a budget of bytes and work.
//
//   %a = Mul(const 2, const 3)    =>    const 6

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "graph/text.h"
#include "graph/values.h"
#include "ops/support/builder.h"
#include "ops/support/fold.h"
#include "passes/constant_memo.h"
#include "passes/pass.h"

namespace kilter {
namespace {

constexpr int64_t kMaxGrowth = 1 << 20;  ///< elements by which results may exceed operands; leaves large Expands alone
constexpr int64_t kShareOfModel = 16;    ///< budget over the model's constant bytes: weights have several forms
constexpr int64_t kMostIdle = int64_t{256} << 20;  ///< bytes of unread results that may accumulate

class Folder {
 public:
  Folder(Graph& graph, PassContext& context) : graph_(graph), context_(context) {
    int64_t bytes = 0;
    for (ValueId v = 0; v < static_cast<ValueId>(graph.value_count()); ++v) {
      const auto& constant = graph.value(v).constant;
      if (constant && constant->dtype() != DType::string) bytes += constant->bytes();
    }
    budget_.bytes += kShareOfModel * bytes;
    budget_.work += kShareOfModel * bytes;
  }

  void run() {
    for (NodeId id : std::vector<NodeId>(graph_.order())) {
      const Node& node = graph_.node(id);
      if (node.dead || !foldable(node)) continue;
      const OpView cost = view(graph_, node);
      if (!budget_.take(cost) || !context_.take()) continue;
      fold(id, node, cost.outputs);
    }
    graph_.remove_dead();
  }

 private:
  bool foldable(const Node& node) const {
    if (!node.op->deterministic || node.op->reference == nullptr) return false;
    std::set<ValueId> operands;  // each counts once: joining an operand with itself is growth
    for (ValueId in : node.inputs) {
      if (in == kNone) continue;
      if (constant_of(graph_, in) == nullptr) return false;
      operands.insert(in);
    }
    int64_t from = 0, to = 0;
    for (ValueId in : operands) from += elems(graph_.type(in).shape);
    for (ValueId out : node.outputs) {
      if (out != kNone) to += elems(graph_.type(out).shape);
    }
    return to <= from + kMaxGrowth;
  }

  void fold(NodeId id, const Node& node, const std::vector<TensorType>& types) {
    std::vector<Tensor> inputs;
    for (ValueId in : node.inputs) inputs.push_back(in == kNone ? Tensor() : *constant_of(graph_, in));
    const auto compute = [&] { return run_reference(node, inputs, types); };
    const std::vector<Tensor> results =
        context_.memo != nullptr ? context_.memo->get(text_of(node), inputs, compute) : compute();
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i] == kNone) continue;
      const ValueId made = graph_.add_constant(graph_.fresh_name(graph_.value(node.outputs[i]).name), results[i]);
      graph_.replace_uses(node.outputs[i], made);
      if (results[i].dtype() != DType::string) made_bytes_ += results[i].bytes();
    }
    graph_.erase(id);
    if (made_bytes_ < kMostIdle) return;
    graph_.remove_dead();  // frees the operands of folded nodes
    made_bytes_ = 0;
  }

  static std::string text_of(const Node& node) {
    std::string text = fmt::format("{}:{}@{}", node.op->domain, node.op->name, node.opset);
    for (const auto& [name, value] : node.attrs) text += fmt::format(" {}={}", name, attr_text(value));
    return text;
  }

  Graph& graph_;
  PassContext& context_;
  FoldBudget budget_;
  int64_t made_bytes_ = 0;  ///< since the last remove_dead()
};

}  // namespace

void fold_constants(Graph& graph, PassContext& context) { Folder(graph, context).run(); }

}  // namespace kilter
