// Helpers with which passes look for patterns.
#pragma once

#include <optional>
#include <string_view>

#include "graph/values.h"
#include "ops/op.h"

namespace kilter {

/// Whether a node is the operator `op` of a domain; "" is that of ONNX.
inline bool is_op(const Node& node, std::string_view op, std::string_view domain = "") {
  return node.op->name == op && node.op->domain == domain;
}

/// The node that computes `v`, if it is the ONNX operator `op`; null otherwise.
inline const Node* made_by(const Graph& graph, ValueId v, std::string_view op) {
  if (v == kNone) return nullptr;
  const NodeId id = graph.value(v).producer;
  if (id == kNone) return nullptr;
  const Node& node = graph.node(id);
  return is_op(node, op) ? &node : nullptr;
}

/// The value of a numeric constant with one element, of any rank. If it has more dimensions than the other operand,
/// so does the result.
inline std::optional<double> scalar_value(const Graph& graph, ValueId v) {
  const Tensor* t = constant_of(graph, v);
  if (t == nullptr || t->elems() != 1 || t->dtype() == DType::string) return std::nullopt;
  return t->as_double(0);
}

/// Whether exactly one node reads `v`, and `v` is not an output of the network.
inline bool read_once(const Graph& graph, ValueId v) { return graph.only_user(v) != kNone && !graph.is_output(v); }

}  // namespace kilter
