// Operators that move elements, run as copies of boxes.
#pragma once

#include <optional>
#include <vector>

#include "graph/op_def.h"

namespace kilter::vm {

/// Returns a node as hooks see it, with the values of its operands. The tensors must outlive the view.
OpView view_of(const Node& node, const std::vector<Tensor>& inputs, const std::vector<TensorType>& types);

/// Runs a node of Family::movement by its regions. Returns nullopt if they do not describe it. `types`: of the outputs;
/// one that is not wanted stays undefined.
std::optional<std::vector<Tensor>> run_regions(const Node& node, const std::vector<Tensor>& inputs,
                                               const std::vector<TensorType>& types);

}  // namespace kilter::vm
