// Finds the graph inputs that a value is computed from.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace kilter::onnx {

struct DataNeed {
  std::vector<ValueId> inputs;  ///< graph inputs that the value is computed from
  bool known_by_inputs = true;  ///< all inputs are small enough for one plan per value: see kMostElems
  std::string obstacle;         ///< if not known_by_inputs: the reason
};

/// A plan is specialised on the values of an input of integers or booleans only if the input has at most this many
/// elements; kMostFloatElems is the limit for floats.
constexpr int64_t kMostElems = 1024;
constexpr int64_t kMostFloatElems = 64;

/// Follows the producers of a value back to graph inputs.
DataNeed trace_need(const Graph& graph, ValueId value);

}  // namespace kilter::onnx
