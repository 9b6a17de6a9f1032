// The part of a network that does not depend on the dimensions in which inputs differ from run to run, such as the
// length of a decoder's cache.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/open_graph.h"

namespace kilter {

/// The values of a network whose shapes change with its inputs' shapes.
struct Varying {
  std::vector<bool> values;  ///< by value of the graph
  double share = 1;          ///< of all elements that nodes read and write, those of nodes with such values (0..1)
};

/// Compares the shapes of all values for two sets of input types. A value that is computed from shapes alone varies if
/// any of the shapes does. Returns nullopt if the network is not a static graph for one of the sets. `name` is the
/// network's, for errors.
std::optional<Varying> find_varying(const OpenGraph& graph, const std::string& name, std::span<const TensorType> one,
                                    std::span<const TensorType> other);

}  // namespace kilter
