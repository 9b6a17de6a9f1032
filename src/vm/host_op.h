// Single operators on values whose shapes are known only while the network runs.
#pragma once

#include <vector>

#include "base/any_value.h"
#include "graph/open_graph.h"

namespace kilter::vm {

/// Runs a node by its reference kernel, or by those of the operators that it expands to. `inputs`: one value for each
/// of node.inputs; absent where one is left out. Returns one value for each of node.outputs; absent where it is not
/// wanted. Throws bad_model if the values do not fit the operator, and unsupported if it has no kernel.
std::vector<AnyValue> run_op(const Node& node, std::vector<AnyValue> inputs);

/// Runs the nodes of a segment one by one, by run_op(). `inputs`: one value for each of its inputs.
std::vector<AnyValue> interpret(const OpenGraph& segment, std::vector<AnyValue> inputs);

}  // namespace kilter::vm
