#include <algorithm>
#include <map>
#include <set>

#include "ops/support/derivatives.h"
#include "ops/support/iterate.h"
#include "ops/support/operands.h"
#include "ops/support/strings.h"

namespace kilter {
namespace {

/// The part of the graph that computes y from the tensors named in xs and zs, and its values for the node's inputs.
class Differentiated {
 public:
  explicit Differentiated(ExpandContext& ctx)
      : ctx_(ctx), graph_(ctx.builder.graph()), xs_(strings_attr(ctx.node, "xs")), zs_(strings_attr(ctx.node, "zs")) {
    check_count(ctx.node, "inputs, one for each name in xs and zs", xs_.size() + zs_.size(), ctx.node.inputs.size());
    for (size_t i = 0; i < ctx.node.inputs.size(); ++i) {
      const ValueId named = find(i < xs_.size() ? xs_[i] : zs_[i - xs_.size()]);
      if (ctx.type(i) != graph_.type(named)) {
        node_error(ctx.node, fmt::format("input {} is {}, expected {} as '{}'", i, text(ctx.type(i)),
                                         text(graph_.type(named)), graph_.value(named).name));
      }
      now_[named] = ctx.in(i);
      if (i < xs_.size()) moving_.insert(named);
    }
    y_ = find(ctx.node.string_attr("y", ""));
    if (!is_float(graph_.type(y_).dtype)) {
      node_error(ctx.node, fmt::format("y has element type {}, expected a float", name(graph_.type(y_).dtype)));
    }
  }

  std::vector<ValueId> gradients() {
    const std::vector<NodeId> nodes = nodes_between();
    for (NodeId id : nodes) evaluate_again(graph_.node(id));
    std::map<ValueId, ValueId> gradient;  // by value of the named graph
    gradient[y_] = filled(graph_.type(y_), 1);
    for (auto at = nodes.rbegin(); at != nodes.rend(); ++at) push_back(graph_.node(*at), gradient);
    std::vector<ValueId> results;
    for (const std::string& name : xs_) {
      const ValueId x = find(name);
      const auto found = gradient.find(x);
      results.push_back(found != gradient.end() ? found->second : filled(graph_.type(x), 0));
    }
    return results;
  }

 private:
  ValueId find(const std::string& name) const {
    const ValueId id = graph_.find_value(name);
    if (id == kNone) {
      node_error(ctx_.node, fmt::format("no tensor is named '{}' before this node; xs, zs and y name tensors", name));
    }
    return id;
  }
  ValueId filled(const TensorType& type, double value) {
    const Tensor element(type.dtype, {1});
    fill(element, value);
    return ctx_.add("ConstantOfShape", {ctx_.builder.list(type.shape)}, {{"value", element}});
  }

  /// Returns the nodes between the differentiated tensors and y, in order.
  std::vector<NodeId> nodes_between() {
    std::set<ValueId> needed = {y_};
    std::vector<NodeId> back;
    const std::vector<NodeId> order = graph_.order();
    for (auto at = order.rbegin(); at != order.rend(); ++at) {
      const Node& node = graph_.node(*at);
      const bool used = std::any_of(node.outputs.begin(), node.outputs.end(),
                                    [&](ValueId v) { return v != kNone && needed.contains(v) && !now_.contains(v); });
      if (!used) continue;
      back.push_back(*at);
      needed.insert(node.inputs.begin(), node.inputs.end());
    }
    std::reverse(back.begin(), back.end());
    std::erase_if(back, [&](NodeId id) {
      const Node& node = graph_.node(id);
      const auto changes = [&](ValueId v) { return v != kNone && (now_.contains(v) || follows_.contains(v)); };
      if (std::none_of(node.inputs.begin(), node.inputs.end(), changes)) return true;
      follows_.insert(node.outputs.begin(), node.outputs.end());
      if (std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId v) { return moving_.contains(v); }))
        moving_.insert(node.outputs.begin(), node.outputs.end());
      return false;
    });
    moving_.erase(kNone);
    return back;
  }

  ValueId now(ValueId v) const {
    const auto at = now_.find(v);
    return at == now_.end() ? v : at->second;
  }

  /// Computes the node's outputs for the inputs of the Gradient node, unless its operands are the same.
  void evaluate_again(const Node& node) {
    std::vector<ValueId> inputs;
    for (ValueId v : node.inputs) inputs.push_back(now(v));
    if (inputs == node.inputs) return;
    GraphBuilder::Options options;
    options.name = node.name;
    options.domain = node.op->domain;
    options.opset = node.opset;
    options.output_count = node.outputs.size();
    const std::vector<ValueId> made = ctx_.builder.add(node.op->name, std::move(inputs), node.attrs, options);
    for (size_t i = 0; i < made.size(); ++i) now_[node.outputs[i]] = made[i];
  }

  /// Adds the node's share to the gradients of its operands.
  void push_back(const Node& node, std::map<ValueId, ValueId>& gradient) {
    const auto known = gradient.find(node.outputs[0]);
    if (known == gradient.end() || !moving_.contains(node.outputs[0])) return;
    std::vector<ValueId> inputs;
    for (ValueId v : node.inputs) inputs.push_back(now(v));
    const std::vector<ValueId> shares =
        derivatives({ctx_.builder, node, std::move(inputs), now(node.outputs[0]), known->second});
    if (shares.empty() || node.outputs.size() != 1) {
      fail(ErrorKind::unsupported, "Gradient '{}': the derivative of {} is not known; it is known for {}",
           ctx_.node.name, label(node), derivable_ops());
    }
    for (size_t i = 0; i < shares.size(); ++i) {
      if (shares[i] == kNone || !moving_.contains(node.inputs[i])) continue;
      const auto [at, fresh] = gradient.emplace(node.inputs[i], shares[i]);
      if (!fresh) at->second = ctx_.add("Add", {at->second, shares[i]});
    }
  }

  ExpandContext& ctx_;
  const Graph& graph_;
  std::vector<std::string> xs_;
  std::vector<std::string> zs_;
  ValueId y_ = kNone;
  std::map<ValueId, ValueId> now_;  ///< by value of the named graph: its value for the node's inputs
  std::set<ValueId> follows_;       ///< values of the named graph that depend on xs or zs
  std::set<ValueId> moving_;        ///< values of the named graph that depend on xs, and xs
};

std::vector<ValueId> expand(ExpandContext& ctx) { return Differentiated(ctx).gradients(); }

}  // namespace

KILTER_OP(Gradient){
    .name = "Gradient",
    .domain = "ai.onnx.preview.training",
    .min_inputs = 1,
    .max_inputs = -1,
    .min_outputs = 1,
    .max_outputs = -1,
    .attrs = {{"xs", "strings", "required"}, {"y", "string", "required"}, {"zs", "strings", ""}},
    .summary =
        "The derivatives of the sum of tensor y by the tensors xs, for nodes before this one that compute y from xs "
        "and "
        "zs, at the values that the inputs give to xs and zs.",
    .expand = expand,
    .shape_operands = {0, 1},
    .cases = {"f32[2,3] f32[2,3] | xs=[in0,in1] y=in1 | | 2"},
};

}  // namespace kilter
