#include "ops/support/flex_attention.h"

#include <cmath>

#include "ops/support/dtype_attr.h"

namespace kilter {
namespace {

/// Adds nodes under the name of one FlexAttention node.
class Expansion {
 public:
  Expansion(GraphBuilder& builder, const Node& node) : builder_(builder), node_(node) {}

  ValueId add(std::string_view op, std::vector<ValueId> inputs, Attrs attrs = {}) const {
    return builder_.add(op, std::move(inputs), std::move(attrs), node_.name);
  }
  const TensorType& type(ValueId id) const { return builder_.type(id); }
  ValueId cast(ValueId value, DType to) const {
    return type(value).dtype == to ? value : add("Cast", {value}, {{"to", code_of_dtype(to)}});
  }
  ValueId reshaped(ValueId value, const Shape& shape) const {
    return add("Reshape", {value, builder_.list(shape)}, {{"allowzero", int64_t{1}}});
  }
  /// Repeats each head of keys or values for all heads of queries that share it.
  ValueId repeated(ValueId value, int64_t heads) const {
    const Shape from = type(value).shape;
    if (from[1] == heads) return value;
    const int64_t times = heads / from[1];
    const ValueId wide = reshaped(value, {from[0], from[1], 1, from[2], from[3]});
    const Shape full = {from[0], from[1], times, from[2], from[3]};
    return reshaped(add("Expand", {wide, builder_.list(full)}), {from[0], heads, from[2], from[3]});
  }
  ValueId modified(ValueId value, const Modifier& by, std::string_view attribute) const {
    if (!by) return value;
    const ValueId result = by(value);
    const TensorType& got = type(result);
    if (got.dtype == type(value).dtype && got.shape == type(value).shape) return result;
    node_error(node_, fmt::format("attribute {} returns {} for {}; it must keep the type", attribute, text(got),
                                  text(type(value))));
  }

 private:
  GraphBuilder& builder_;
  const Node& node_;
};

}  // namespace

void check_flex_operands(const Node& node, const std::array<TensorType, 3>& types) {
  for (size_t i = 0; i < types.size(); ++i) {
    if (types[i].shape.size() != 4) {
      node_error(node, fmt::format("input {} has shape {}, expected [batch, heads, positions, size]", i,
                                   text(types[i].shape)));
    }
  }
}

ValueId add_modified_attention(GraphBuilder& builder, const Node& node, const std::array<ValueId, 3>& operands,
                               const Modifier& score_mod, const Modifier& prob_mod) {
  const Expansion e(builder, node);
  const auto& [q, k, v] = operands;
  check_flex_operands(node, {e.type(q), e.type(k), e.type(v)});
  const DType type = e.type(q).dtype;
  const Shape& queries = e.type(q).shape;
  const int64_t shared = e.type(k).shape[1];
  if (!is_float(type) || e.type(k).dtype != type || e.type(v).dtype != type) {
    node_error(node, fmt::format("inputs have element types {}, {} and {}, expected one float type", name(type),
                                 name(e.type(k).dtype), name(e.type(v).dtype)));
  }
  if (shared == 0 || queries[1] % shared != 0 || e.type(v).shape[1] != shared) {
    node_error(node,
               fmt::format("has {} heads of queries, {} of keys and {} of values; keys and values must have equally "
                           "many, and queries a multiple",
                           queries[1], shared, e.type(v).shape[1]));
  }
  const DType precision = dtype_attr(node, "softmax_precision", type == DType::f64 ? DType::f64 : DType::f32);
  const auto size = static_cast<float>(queries[3]);
  const float scale = node.has_attr("scale") ? node.float_attr("scale", 1) : 1 / std::sqrt(size);
  const ValueId root = e.cast(builder.constant(Tensor::scalar(std::sqrt(scale))), type);
  const ValueId keys = e.add("Transpose", {e.add("Mul", {e.repeated(k, queries[1]), root})},
                             {{"perm", std::vector<int64_t>{0, 1, 3, 2}}});
  const ValueId scores = e.cast(e.add("MatMul", {e.add("Mul", {q, root}), keys}), precision);
  const ValueId probabilities = e.add("Softmax", {e.modified(scores, score_mod, "score_mod")}, {{"axis", int64_t{-1}}});
  const ValueId weights = e.modified(probabilities, prob_mod, "prob_mod");
  const ValueId values = e.cast(e.repeated(v, queries[1]), precision);
  return e.cast(e.add("MatMul", {weights, values}), type);
}

}  // namespace kilter
