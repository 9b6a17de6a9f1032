// What passes, templates and the builder ask about the values of a graph.
#pragma once

#include <string>

#include "graph/graph.h"

namespace kilter {

/// The tensor of a constant; nullptr for any other value, and for kNone: an operand that is left out.
const Tensor* constant_of(const Graph& graph, ValueId id);

/// Whether element types and shapes are equal, whatever the layouts.
bool same_elements(const TensorType& a, const TensorType& b);

/// Why `to` may not take the place of `from` (element types and shapes must be the same, layouts need not): both
/// values, their types and the nodes that make them; empty where it may. Graph::replace_uses() and verify() throw it as
/// internal.
std::string replacement_fault(const Graph& graph, ValueId from, ValueId to);

}  // namespace kilter
