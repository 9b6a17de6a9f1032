// Several graphs side by side as one graph.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace kilter {

/// A graph and a short text that distinguishes it from the others.
struct LabelledGraph {
  std::string label;
  Graph graph;
};

struct UnitedGraph {
  using Names = std::map<std::string, std::string, std::less<>>;

  Graph graph;
  /// For each part: the names of its nodes and values in `graph`, by their names in the part.
  std::vector<Names> names;
};

/// Returns a graph that computes what all parts compute, independently of each other. Its inputs and outputs are those
/// of the parts, one part after another. A name that an earlier part has, for a node or a value, is
/// followed by "@LABEL". Constants share the memory of the parts'.
UnitedGraph unite(std::span<const LabelledGraph> parts);

}  // namespace kilter
