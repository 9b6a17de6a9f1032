// Names of nodes that passes create for other nodes and values.
#pragma once

#include <cstddef>
#include <string_view>

namespace kilter {

/// Finds the node or value for which a pass created a node: "conv1.relayout" was created for "conv1". Asks `known` for
/// the name itself, then for the part before the last point, and so on. Returns the length of the first name that is
/// known; 0 if none is.
template <class Known>
size_t maker_length(std::string_view node, const Known& known) {
  for (size_t length = node.size(); length > 0 && length != std::string_view::npos;
       length = node.substr(0, length).rfind('.')) {
    if (known(node.substr(0, length))) return length;
  }
  return 0;
}

}  // namespace kilter
