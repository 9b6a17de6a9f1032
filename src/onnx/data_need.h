// Finds the graph inputs that a value is computed from.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace kilter::onnx {

struct DataNeed {
  std::vector<ValueId> inputs;  ///< graph inputs that the value is computed from
  bool known_by_inputs = true;  ///< all are small enough to compile one plan per value: see kMostElems
  std::string obstacle;         ///< otherwise the reason why not
};

/// The most elements that an input of integers or booleans may have to specialise on its values; kMostFloatElems is the
/// limit for floats.
constexpr int64_t kMostElems = 1024;
constexpr int64_t kMostFloatElems = 64;

/// Follows the producers of a value back to graph inputs.
DataNeed trace_need(const Graph& graph, ValueId value);

}  // namespace kilter::onnx
