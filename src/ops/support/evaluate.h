// Runs a graph by the reference kernels of its operators: the answer that compiled code is compared with.
#pragma once

#include <functional>
#include <vector>

#include "graph/graph.h"

namespace kilter {

/// Called after each node with its outputs (undefined = not wanted).
using Observer = std::function<void(NodeId, const std::vector<Tensor>&)>;

/// The values of graph.outputs(). `inputs` are dense, in the order of graph.inputs(). Layouts are ignored: reference
/// kernels see logical tensors. Throws bad_input when an input has another type than declared, unsupported when a node
/// has no reference kernel.
std::vector<Tensor> evaluate(const Graph& graph, const std::vector<Tensor>& inputs, const Observer& observe = {});

}  // namespace kilter
