// The checks of a model's graphs that need no types: single definition of every name, no missing producer, no cycle.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "onnx/schema.h"

namespace kilter::onnx {

/// For each GraphProto and FunctionProto (by address): the indices of its nodes, every producer before its users. ONNX
/// asks for sorted nodes; files that are not sorted are accepted.
using Orders = std::unordered_map<const void*, std::vector<int>>;

/// Checks a graph and, recursively, the graphs in its nodes; adds their orders. Graphs in nodes see the names around
/// them and may define them anew. Throws bad_model naming `file`, the graph, and the offending names and nodes.
void check_graph(const pb::GraphProto& graph, const std::string& file, Orders& orders);
/// The same for the body of a function, which sees its inputs only.
void check_function(const pb::FunctionProto& function, const std::string& file, Orders& orders);

}  // namespace kilter::onnx
