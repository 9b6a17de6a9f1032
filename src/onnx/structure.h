// The checks of a model's graphs that need no types: every name is defined once, every producer exists, and there is no
// cycle.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "onnx/schema.h"

namespace kilter::onnx {

/// For each GraphProto and FunctionProto (by address), the indices of its nodes with every producer before its users.
/// ONNX requires sorted nodes; unsorted files are accepted.
using Orders = std::unordered_map<const void*, std::vector<int>>;

/// Checks a graph and, recursively, the graphs in its nodes, and adds their orders. Graphs in nodes see the names
/// around them and may redefine them. Throws bad_model naming `file`, the graph, and the offending names and nodes.
void check_graph(const pb::GraphProto& graph, const std::string& file, Orders& orders);
/// Checks the body of a function, which sees only its inputs, and adds its orders. Throws as check_graph() does.
void check_function(const pb::FunctionProto& function, const std::string& file, Orders& orders);

}  // namespace kilter::onnx
