// Equality of constants, nodes and graphs, for merging those that compute the same.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graph/open_graph.h"

namespace kilter {

/// Returns whether operator, opset and attributes are equal, and the same outputs are wanted. Inputs are not compared,
/// nor are graphs inside the nodes.
bool same_operation(const Node& a, const Node& b);
/// Returns whether two regions have equal graphs and the same captures.
bool same_region(const Region& a, const Region& b);
/// Returns whether two graphs compute the same, apart from names, with each value at the same index. Large constants
/// must be in the same memory.
bool same_graph(const OpenGraph& a, const OpenGraph& b);

/// Finds constants that are equal.
class EqualConstants {
 public:
  /// Returns the first value given so far whose constant has the type, shape and bytes of this one: `v` if there is
  /// none.
  ValueId first(ValueId v, const Tensor& constant);

 private:
  std::unordered_map<uint64_t, std::vector<std::pair<ValueId, Tensor>>> seen_;  ///< by the hash of some of the bytes
};

}  // namespace kilter
