// Queries about the values of a graph, for passes, templates and the builder.
#pragma once

#include <string>

#include "graph/graph.h"

namespace kilter {

/// Returns the tensor of a constant. Returns nullptr for any other value, and for kNone, an operand that is left out.
const Tensor* constant_of(const Graph& graph, ValueId id);

/// Returns whether element types and shapes are equal, whatever the layouts.
bool same_elements(const TensorType& a, const TensorType& b);

/// Returns the elements of a value from those in memory, which are dense and of stored_type().
Tensor elements_of(const TensorType& type, const Tensor& stored);

/// Returns why `to` may not replace `from`: element types and shapes must be equal, layouts need not be. The text names
/// both values, their types and the nodes that compute them; it is empty if the replacement is legal.
/// Graph::replace_uses() and verify() throw it as internal.
std::string replacement_fault(const Graph& graph, ValueId from, ValueId to);

}  // namespace kilter
