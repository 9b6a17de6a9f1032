// Which nodes of a model compute on 8-bit values, and which values are quantised.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "quantize/document.h"
#include "quantize/scale.h"

namespace kilter::quantize {

enum class Format : uint8_t {
  qdq,          ///< float operators between DequantizeLinear and QuantizeLinear
  qoperator,    ///< QLinearConv and the like
  matmulnbits,  ///< com.microsoft:MatMulNBits, weights only
};

enum class Kind : uint8_t {
  product,     ///< Conv, Gemm, MatMul: why a network is quantised at all
  arithmetic,  ///< Add and Mul of two quantised values
  average,     ///< pools that average
  unary,       ///< functions of one value
  concat,
  movement,  ///< results contain only values of the operand, so both have one scale
};

/// How an ONNX operator is quantised.
struct Role {
  std::string_view op;
  Kind kind;
  std::string_view quantised_op;  ///< the operator on integers for Format::qoperator; empty: the operator itself
  int activations = 1;            ///< number of operands that are activations; -1: all
  int32_t integers_since = 0;     ///< for movement: the first opset with which the operator takes 8-bit values
  bool float_result = false;      ///< for products: whether runtimes multiply integers and return floats (qdq)
  bool op_float_result = false;   ///< the same for `quantised_op`
};

/// A node that is quantised.
struct Layer {
  int node = -1;  ///< index in Document::nodes()
  const Role* role = nullptr;
  int clip = -1;                ///< the Relu or Clip that alone reads the result; saturation does its work. -1: none
  std::string output;           ///< the value that the layer computes: the node's first output, or that of `clip`
  bool writes_integers = true;  ///< whether `output` is quantised
  std::vector<std::string> activations;
};

struct LeftOut {
  std::string node;
  std::string op;
  std::string reason;
};

struct Plan {
  std::vector<Layer> layers;  ///< in the order of the nodes
  /// Each quantised value with the value whose range gives its scale: itself, or that from which movements take it.
  std::map<std::string, std::string> values;
  std::vector<LeftOut> left_out;  ///< products that stay float

  const Layer* layer_of(int node) const;
  bool quantised(const std::string& value) const { return values.contains(value); }
};

/// The element type of each value, as far as known.
using Types = std::function<std::optional<DType>(const std::string& value)>;

/// Plans the quantisation of a model for a format other than matmulnbits. Nodes in `exclude` stay float. Throws usage
/// if there is no node of such a name, and bad_model if no product can be quantised.
Plan make_plan(Document& document, const Types& types, Format format, const std::set<std::string>& exclude);

/// Throws usage unless the model has every one of these nodes (see node_name()).
void check_nodes_exist(const Document& document, const std::set<std::string>& names);

}  // namespace kilter::quantize
