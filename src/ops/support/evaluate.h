// Runs a graph with the reference kernels of its operators. Compiled code is compared with the results.
#pragma once

#include <functional>
#include <vector>

#include "graph/graph.h"

namespace kilter {

/// Called after each node with its outputs (undefined = not wanted).
using Observer = std::function<void(NodeId, const std::vector<Tensor>&)>;
/// Runs a node as run_reference() does (builder.h).
using RunNode = std::function<std::vector<Tensor>(const Node&, std::vector<Tensor>, const std::vector<TensorType>&)>;

/// Returns the values of graph.outputs(). `inputs` are dense, in the order of graph.inputs(). Layouts are ignored,
/// since reference kernels see logical tensors. Throws bad_input if an input has a different type than declared, and
/// unsupported if a node has no reference kernel. `run`: called instead of the reference kernels.
std::vector<Tensor> evaluate(const Graph& graph, const std::vector<Tensor>& inputs, const Observer& observe = {},
                             const RunNode& run = {});

}  // namespace kilter
