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
/// of the parts, one part after another. If an earlier part already uses the name of a node or value, "@LABEL", with
/// the later part's label, is appended to it. Constants share their memory with those of the parts.
UnitedGraph unite(std::span<const LabelledGraph> parts);

}  // namespace kilter
