// The nodes of a quantised model.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "quantize/document.h"
#include "quantize/plan.h"
#include "quantize/scale.h"

namespace kilter::quantize {

/// The types of quantised values, and the scale of each value that has its own.
struct Scales {
  DType activations = DType::u8;
  DType weights = DType::i8;
  bool per_channel = false;
  std::map<std::string, Affine> of;  ///< by the values that Plan::values maps to

  const Affine& at(const Plan& plan, const std::string& value) const { return of.at(plan.values.at(value)); }
};

/// The constant operands of a product, quantised.
struct LayerConstants {
  std::optional<int64_t> axis;  ///< of the scales of the weights; none: one scale
  QuantisedWeights weights;
  std::optional<Tensor> bias;      ///< i32
  std::vector<float> bias_scales;  ///< one, or as many as the bias has elements
};
/// Returns nothing for a layer without constant weights. Throws bad_model if the weights contain NaN or infinity.
std::optional<LayerConstants> quantise_constants(const Document& document, const Plan& plan, const Layer& layer,
                                                 const Scales& scales);

/// Adds initializers with the scales and zero points of values to a document.
class ScaleNames {
 public:
  ScaleNames(Document& document, const Plan& plan, const Scales& scales)
      : document_(document), plan_(plan), scales_(scales) {}
  struct Pair {
    std::string scale, zero;
  };
  /// Returns the names of the scale and the zero point of a quantised value.
  const Pair& of(const std::string& value);
  /// Adds a scale and a zero point of weights or a bias: scalars, or vectors.
  Pair add(const std::string& hint, const std::vector<float>& scales, bool vector, DType type, int32_t zero);

 private:
  Document& document_;
  const Plan& plan_;
  const Scales& scales_;
  std::map<std::string, Pair> made_;
};

/// Creates the nodes of a model with QuantizeLinear and DequantizeLinear around its layers.
class QdqWriter {
 public:
  /// `document` gets new initializers; its nodes stay as they are.
  QdqWriter(Document& document, const Plan& plan, const Scales& scales);

  Nodes write();
  /// Returns the nodes of write() that dequantise constants.
  const Nodes& constant_nodes() const { return constant_nodes_; }
  /// Returns the name of the value, after quantisation, that stands for a value of the float model.
  std::string name_of(const std::string& value) const;
  /// Returns the inputs of a layer whose activations are named by `activation`. Call it after write().
  std::vector<std::string> inputs_of(const Layer& layer,
                                     const std::function<std::string(const std::string&)>& activation) const;
  /// Adds nodes that quantise `from` with the scale of `value`, and dequantise the result as `to`.
  void add_pair(Nodes& nodes, const std::string& value, const std::string& from, const std::string& to);

 private:
  std::string made_name(const std::string& value) const;
  void add_node(Nodes& nodes, int index);
  void add_constants(const Layer& layer);
  std::string dequantised_constant(const std::string& hint, const std::string& values, const ScaleNames::Pair& names,
                                   std::optional<int64_t> axis);
  bool by_layer(const std::string& value) const { return by_layer_.contains(value); }

  Document& document_;
  const Plan& plan_;
  const Scales& scales_;
  ScaleNames names_;
  std::set<std::string> by_layer_;  ///< quantised values that layers compute
  std::map<std::string, std::string> dequantised_, floats_;
  std::map<int, std::vector<std::string>> constants_;  ///< by node: names of its dequantised weights and bias
  Nodes constant_nodes_;
};

/// Replaces the nodes of a model by operators on integers, with QuantizeLinear and DequantizeLinear where float nodes
/// are next to them.
void write_qoperators(Document& document, const Plan& plan, const Scales& scales);

}  // namespace kilter::quantize
