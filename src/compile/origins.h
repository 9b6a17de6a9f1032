// Where the nodes of a model went: passes replace, split and merge them, and what they make has names of its own.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "compile/compile.h"

namespace kilter {

/// For each node of the model that is not known by the name of a layer alone: the layers that run it, or what passes
/// made of it, by the names of their anchors, in order. Nodes that no layer runs are left out: views of memory, what
/// was evaluated while compiling, what nobody reads.
std::map<std::string, std::vector<std::string>> layers_of_nodes(const PassedGraph& passed, const Compiled& compiled);

}  // namespace kilter
