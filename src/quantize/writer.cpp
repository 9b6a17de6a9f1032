#include "quantize/writer.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/text.h"

namespace kilter::quantize {
namespace {

/// Returns the axis of the output channels of the weights of a product.
int64_t channel_axis(const pb::NodeProto& node, const Tensor& weights) {
  if (weights.rank() > 2) return 0;  // of a convolution
  return int_attribute(node, "transB", 0) != 0 ? 0 : 1;
}

void check_finite(const Document& document, const std::string& name, const pb::NodeProto& node) {
  for (const float v : document.constant(name)->span<float>()) {
    if (std::isfinite(v)) continue;
    fail(ErrorKind::bad_model,
         "{}: {} '{}': the constant '{}' contains {}; expected finite values; leave the node float with --exclude",
         document.file(), op_name(node), printable(node_name(node)), printable(name), v);
  }
}

}  // namespace

std::optional<LayerConstants> quantise_constants(const Document& document, const Plan& plan, const Layer& layer,
                                                 const Scales& scales) {
  const pb::NodeProto& node = document.nodes()[layer.node];
  if (layer.role->kind != Kind::product) return std::nullopt;
  const Tensor* weights = document.constant(node.input(1));
  if (weights == nullptr) return std::nullopt;
  check_finite(document, node.input(1), node);
  LayerConstants made;
  if (scales.per_channel) made.axis = channel_axis(node, *weights);
  const float input = scales.at(plan, layer.activations.front()).scale;
  const Tensor* bias = node.input_size() > 2 && !node.input(2).empty() ? document.constant(node.input(2)) : nullptr;
  std::vector<float> least;
  if (bias != nullptr) {
    check_finite(document, node.input(2), node);
    least = least_scales(*bias, input, made.axis ? static_cast<size_t>(bias->elems()) : 1);
  }
  made.weights = quantise_weights(*weights, made.axis, scales.weights, least);
  if (bias != nullptr) {
    made.bias = quantise_bias(*bias, input, made.weights.scales);
    for (const float scale : made.weights.scales) made.bias_scales.push_back(input * scale);
  }
  return made;
}

const ScaleNames::Pair& ScaleNames::of(const std::string& value) {
  const std::string& owner = plan_.values.at(value);
  const auto known = made_.find(owner);
  if (known != made_.end()) return known->second;
  const Affine& affine = scales_.at(plan_, value);
  return made_.emplace(owner, add(owner, {affine.scale}, false, scales_.activations, affine.zero)).first->second;
}

ScaleNames::Pair ScaleNames::add(const std::string& hint, const std::vector<float>& scales, bool vector, DType type,
                                 int32_t zero) {
  const Shape shape = vector ? Shape{static_cast<int64_t>(scales.size())} : Shape{};
  Tensor zeros(type, shape);
  for (size_t i = 0; i < scales.size(); ++i) {
    if (type == DType::u8) zeros.data<uint8_t>()[i] = static_cast<uint8_t>(zero);
    if (type == DType::i8) zeros.data<int8_t>()[i] = static_cast<int8_t>(zero);
    if (type == DType::i32) zeros.data<int32_t>()[i] = zero;
  }
  Pair made;
  made.scale = document_.add(hint + "_scale", Tensor::of<float>(shape, std::span<const float>(scales)));
  made.zero = document_.add(hint + "_zero_point", std::move(zeros));
  return made;
}

QdqWriter::QdqWriter(Document& document, const Plan& plan, const Scales& scales)
    : document_(document), plan_(plan), scales_(scales), names_(document, plan, scales) {
  for (const Layer& layer : plan.layers) {
    if (layer.writes_integers) by_layer_.insert(layer.output);
  }
  for (const auto& [value, owner] : plan.values) {
    const bool keeps_name = by_layer(value) && document.is_output(value);
    // The value that an output of the graph names must be the dequantised one.
    if (keeps_name) floats_[value] = document.fresh(value + "_float");
    dequantised_[value] = keeps_name ? value : document.fresh(value + "_dequantized");
  }
}

std::string QdqWriter::made_name(const std::string& value) const {
  const auto renamed = floats_.find(value);
  return renamed != floats_.end() ? renamed->second : value;
}

std::string QdqWriter::name_of(const std::string& value) const {
  return by_layer(value) ? dequantised_.at(value) : value;
}

std::vector<std::string> QdqWriter::inputs_of(const Layer& layer,
                                              const std::function<std::string(const std::string&)>& activation) const {
  const pb::NodeProto& node = document_.nodes()[layer.node];
  std::vector<std::string> inputs(node.input().begin(), node.input().end());
  for (std::string& input : inputs) {
    if (std::ranges::find(layer.activations, input) != layer.activations.end()) input = activation(input);
  }
  const auto constants = constants_.find(layer.node);
  if (constants == constants_.end()) return inputs;
  for (size_t i = 0; i < constants->second.size(); ++i) inputs[i + 1] = constants->second[i];
  return inputs;
}

void QdqWriter::add_pair(Nodes& nodes, const std::string& value, const std::string& from, const std::string& to) {
  const ScaleNames::Pair& names = names_.of(value);
  const std::string quantised = document_.fresh(value + "_quantized");
  *nodes.Add() = make_node("QuantizeLinear", document_.fresh(value + "_QuantizeLinear"),
                           {from, names.scale, names.zero}, {quantised});
  *nodes.Add() = make_node("DequantizeLinear", document_.fresh(value + "_DequantizeLinear"),
                           {quantised, names.scale, names.zero}, {to});
}

std::string QdqWriter::dequantised_constant(const std::string& hint, const std::string& values,
                                            const ScaleNames::Pair& names, std::optional<int64_t> axis) {
  std::string made = document_.fresh(hint + "_dequantized");
  pb::NodeProto node = make_node("DequantizeLinear", document_.fresh(hint + "_DequantizeLinear"),
                                 {values, names.scale, names.zero}, {made});
  if (axis) set_attribute(node, "axis", *axis);
  *constant_nodes_.Add() = std::move(node);
  return made;
}

void QdqWriter::add_constants(const Layer& layer) {
  const auto quantised = quantise_constants(document_, plan_, layer, scales_);
  if (!quantised) return;
  const pb::NodeProto& node = document_.nodes()[layer.node];
  const auto& [axis, weights, bias, bias_scales] = *quantised;
  const std::string& hint = node.input(1);
  const std::string values = document_.add(hint + "_quantized", weights.values);
  const auto names = names_.add(hint, weights.scales, axis.has_value(), scales_.weights, weights.zero);
  std::vector<std::string>& made = constants_[layer.node];
  made.push_back(dequantised_constant(hint, values, names, axis));
  if (!bias) return;
  const std::string& bias_hint = node.input(2);
  const std::string bias_values = document_.add(bias_hint + "_quantized", *bias);
  const auto bias_names = names_.add(bias_hint, bias_scales, axis.has_value(), DType::i32, 0);
  const std::optional<int64_t> bias_axis = axis ? std::optional(bias->rank() - 1) : std::nullopt;
  made.push_back(dequantised_constant(bias_hint, bias_values, bias_names, bias_axis));
}

void QdqWriter::add_node(Nodes& nodes, int index) {
  pb::NodeProto node = document_.nodes()[index];
  if (const Layer* layer = plan_.layer_of(index)) {
    add_constants(*layer);
    const auto inputs = inputs_of(*layer, [&](const std::string& value) { return dequantised_.at(value); });
    std::copy(inputs.begin(), inputs.end(), node.mutable_input()->begin());
  } else {
    for (std::string& input : *node.mutable_input()) input = name_of(input);
  }
  for_each_inner_use(node, [&](std::string& name) { name = name_of(name); });
  for (std::string& output : *node.mutable_output()) output = made_name(output);
  *nodes.Add() = std::move(node);
  for (const std::string& output : document_.nodes()[index].output()) {
    if (plan_.quantised(output)) add_pair(nodes, output, made_name(output), dequantised_.at(output));
  }
}

Nodes QdqWriter::write() {
  Nodes nodes;
  for (const auto& input : document_.graph().input()) {
    if (plan_.quantised(input.name())) add_pair(nodes, input.name(), input.name(), dequantised_.at(input.name()));
  }
  for (int i = 0; i < document_.nodes().size(); ++i) add_node(nodes, i);
  Nodes all = constant_nodes_;
  for (auto& node : nodes) *all.Add() = std::move(node);
  return all;
}

}  // namespace kilter::quantize
