// Maps the nodes of a model to layers: passes replace, split and merge nodes, and the nodes that they create have
// different names.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "compile/compile.h"

namespace kilter {

/// For each node of the model whose layer does not simply have its name, returns the layers that run it or the nodes
/// that passes created from it, by the names of their anchors, in order. Omits nodes that no layer runs: views of
/// memory, nodes evaluated at compile time, and nodes whose results are not read.
std::map<std::string, std::vector<std::string>> layers_of_nodes(const PassedGraph& passed, const Compiled& compiled);

}  // namespace kilter
