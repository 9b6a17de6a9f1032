#include <algorithm>

#include "quantize/writer.h"

namespace kilter::quantize {
namespace {

class QOperatorWriter {
 public:
  QOperatorWriter(Document& document, const Plan& plan, const Scales& scales)
      : document_(document), plan_(plan), scales_(scales), names_(document, plan, scales), uses_(document) {
    for (const Layer& layer : plan.layers) {
      if (layer.clip >= 0) dropped_.insert(layer.clip);
      if (layer.writes_integers) by_layer_.insert(layer.output);
    }
    for (const auto& [value, owner] : plan.values) integers_[value] = document.fresh(value + "_quantized");
  }

  void write() {
    for (const auto& input : document_.graph().input()) {
      if (plan_.quantised(input.name())) add_quantise(input.name());
    }
    for (int i = 0; i < document_.nodes().size(); ++i) {
      if (dropped_.contains(i)) continue;
      if (const Layer* layer = plan_.layer_of(i)) {
        add_layer(*layer);
      } else {
        add_float(i);
      }
    }
    const bool microsoft = std::any_of(nodes_.begin(), nodes_.end(), [](const auto& n) { return !n.domain().empty(); });
    document_.nodes().Swap(&nodes_);
    if (microsoft) document_.import("com.microsoft");
  }

 private:
  using Names = std::vector<std::string>;

  void add_quantise(const std::string& value) {
    const auto& names = names_.of(value);
    *nodes_.Add() = make_node("QuantizeLinear", document_.fresh(value + "_QuantizeLinear"),
                              {value, names.scale, names.zero}, {integers_.at(value)});
  }

  /// Whether anything reads the value as floats.
  bool read_as_floats(const std::string& value) const {
    return uses_.read_elsewhere(value) || std::ranges::any_of(uses_.readers(value), [&](int reader) {
             return plan_.layer_of(reader) == nullptr && !dropped_.contains(reader);
           });
  }

  void add_float(int index) {
    *nodes_.Add() = document_.nodes()[index];
    for (const std::string& output : document_.nodes()[index].output()) {
      if (plan_.quantised(output)) add_quantise(output);
    }
  }

  void add_layer(const Layer& layer) {
    pb::NodeProto made = layer.role->kind == Kind::movement ? movement(layer) : computation(layer);
    made.mutable_output()->Clear();
    made.add_output(layer.writes_integers ? integers_.at(layer.output) : layer.output);
    *nodes_.Add() = std::move(made);
    if (!layer.writes_integers) {
      if (plan_.quantised(layer.output)) add_quantise(layer.output);
      return;
    }
    if (!read_as_floats(layer.output)) return;
    const auto& names = names_.of(layer.output);
    *nodes_.Add() = make_node("DequantizeLinear", document_.fresh(layer.output + "_DequantizeLinear"),
                              {integers_.at(layer.output), names.scale, names.zero}, {layer.output});
  }

  pb::NodeProto movement(const Layer& layer) const {
    pb::NodeProto node = document_.nodes()[layer.node];
    node.set_input(0, integers_.at(node.input(0)));
    return node;
  }

  /// Appends a quantised value with its scale and zero point to the operands of a node.
  void append(Names& operands, const std::string& value) {
    const auto& names = names_.of(value);
    operands.insert(operands.end(), {integers_.at(value), names.scale, names.zero});
  }
  void append_scale(Names& operands, const std::string& value) {
    const auto& names = names_.of(value);
    operands.insert(operands.end(), {names.scale, names.zero});
  }

  pb::NodeProto computation(const Layer& layer) {
    const pb::NodeProto& old = document_.nodes()[layer.node];
    Names operands;
    if (layer.role->kind == Kind::concat) append_scale(operands, layer.output);
    for (const std::string& value : layer.activations) append(operands, value);
    Names bias;
    append_constants(layer, operands, bias);
    // QLinearConv has the bias last, QGemm before the scale of the result.
    const bool bias_first = layer.role->op_float_result;
    if (bias_first) operands.push_back(bias.empty() ? "" : bias.front());
    if (layer.role->kind != Kind::concat && layer.writes_integers) append_scale(operands, layer.output);
    if (!bias_first) operands.insert(operands.end(), bias.begin(), bias.end());
    while (operands.back().empty()) operands.pop_back();
    pb::NodeProto made = make_node(layer.role->quantised_op, node_name(old), operands, {});
    *made.mutable_attribute() = old.attribute();
    erase_attribute(made, "beta");  // QGemm has none; it is 1
    return made;
  }

  static void erase_attribute(pb::NodeProto& node, std::string_view name) {
    auto& all = *node.mutable_attribute();
    all.erase(std::remove_if(all.begin(), all.end(), [&](const auto& a) { return a.name() == name; }), all.end());
  }

  void append_constants(const Layer& layer, Names& operands, Names& bias) {
    const auto constants = quantise_constants(document_, plan_, layer, scales_);
    if (!constants) return;
    const pb::NodeProto& node = document_.nodes()[layer.node];
    const auto& weights = constants->weights;
    operands.push_back(document_.add(node.input(1) + "_quantized", weights.values));
    const auto names =
        names_.add(node.input(1), weights.scales, constants->axis.has_value(), scales_.weights, weights.zero);
    operands.insert(operands.end(), {names.scale, names.zero});
    if (constants->bias) bias.push_back(document_.add(node.input(2) + "_quantized", *constants->bias));
  }

  Document& document_;
  const Plan& plan_;
  const Scales& scales_;
  ScaleNames names_;
  Uses uses_;
  Nodes nodes_;
  std::set<int> dropped_;                        ///< Relu and Clip that saturation replaces
  std::set<std::string> by_layer_;               ///< quantised values that layers compute
  std::map<std::string, std::string> integers_;  ///< names of quantised values
};

}  // namespace

void write_qoperators(Document& document, const Plan& plan, const Scales& scales) {
  QOperatorWriter(document, plan, scales).write();
}

}  // namespace kilter::quantize
